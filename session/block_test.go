package session

import (
	"strings"
	"testing"
	"time"

	"pillion.dev/wire"
)

const second = Duration(time.Second)

// TestBlocksInSessions: tasks have the length of blocks only where an encoding carries them and the
// agent knows it; sampling and hosts behind agents are refused.
func TestBlocksInSessions(t *testing.T) {
	for _, row := range []struct {
		name, encoding string
		change         func(*Spec)
		want           string // part of a problem
		block          Duration
	}{
		{"altmark", "altmark", nil, "", second},
		{"with others", "udp-option,altmark,udp", nil, "", second},
		{"without", "native", nil, "", 0},
		{"of a length", "altmark", func(s *Spec) { s.Block = 5 * second }, "", 5 * second},
		{"of parts of milliseconds", "altmark", func(s *Spec) { s.Block = second + 1 }, "whole number of milliseconds", second + 1},
		{"sampled", "altmark", func(s *Spec) { s.Sampling.Every = 10 }, "cannot be combined with sampling", second},
		{"one is sampled", "altmark", func(s *Spec) { s.SamplingFor = map[string]Sampling{"a": {Random: 10}} }, "cannot be combined with sampling", second},
		{"sparse", "altmark", func(s *Spec) { s.SparseMarks = true }, "cannot be sparse", second},
		{"hosts behind", "altmark", func(s *Spec) { s.Transit = map[string]string{"a": "10.1.0.0/16", "b": "10.2.0.0/16"} }, "hosts behind agents", second},
	} {
		t.Run(row.name, func(t *testing.T) {
			spec := Spec{Name: "s", Sources: []string{"a"}, Destinations: []string{"b"}, Encoding: row.encoding}
			if row.change != nil {
				row.change(&spec)
			}
			spec = spec.Complete()
			if got := spec.marking("").Block; got != row.block {
				t.Errorf("blocks of %v, want %v", got, row.block)
			}
			var p problems
			p.carries(spec)
			p.blocks(spec)
			var texts []string
			for _, one := range p {
				texts = append(texts, one.Message)
			}
			if got := strings.Join(texts, "; "); !strings.Contains(got, row.want) || row.want == "" && got != "" {
				t.Errorf("problems: %q, want %q", got, row.want)
			}
		})
	}
	a := Assignment{Sources: []SourceTask{{Marking: wire.Marking{Block: second}}}, Destinations: []DestinationTask{{Block: second}}}
	a.restrictFields(Host{Capabilities: []string{wire.AltMark.String()}})
	if a.Sources[0].Block == 0 || a.Destinations[0].Block == 0 {
		t.Error("removed for an agent that knows it")
	}
	a.restrictFields(Host{Capabilities: []string{"native"}})
	if a.Sources[0].Block != 0 || a.Destinations[0].Block != 0 {
		t.Error("kept for an agent that does not know it")
	}
}

// TestBlocksOfSessions: sessions whose marks one source writes, or one destination reads, agree in the length.
func TestBlocksOfSessions(t *testing.T) {
	for _, row := range []struct {
		name      string
		read, own Duration // of the session that runs, and the next one
		want      string
	}{
		{"the same", second, second, ""},
		{"one has none", 0, second, ""},
		{"different", second, 2 * second, "different block on the same interface of a destination (existing: 1s; new: 2s)"},
	} {
		err := fitsReading([]DestinationTask{{Session: "x", Block: row.read}}, DestinationTask{Session: "y", Block: row.own})
		if row.want == "" && err != nil || row.want != "" && (err == nil || !strings.Contains(err.Error(), row.want)) {
			t.Errorf("%s at a destination: %v, want %q", row.name, err, row.want)
		}
	}
	task := func(session string, block Duration) SourceTask {
		return SourceTask{Session: session, Encoding: "altmark", Marking: wire.Marking{Block: block}, Peers: []Peer{{Agent: "b", Addresses: []string{"fd00::2"}}}, Addresses: []string{"fd00::1"}}
	}
	if err := Fits([]SourceTask{task("x", second)}, task("y", 2*second)); err == nil || !strings.Contains(err.Error(), "different block for the same packets") {
		t.Errorf("at a source: %v", err)
	}
	if err := Fits([]SourceTask{task("x", second)}, task("y", second)); err != nil {
		t.Errorf("at a source: %v", err)
	}
}

// TestBlockWarnings: a plan names the pairs whose clocks may put packets into other blocks.
func TestBlockWarnings(t *testing.T) {
	host := func(name, boot string, bound time.Duration) Host {
		return Host{Name: name, Boot: boot, Clock: Clock{MaxErrorNs: int64(bound)}}
	}
	hosts := []Host{
		host("a", "1", 100*time.Millisecond), host("b", "2", 150*time.Millisecond), host("c", "3", 150*time.Millisecond+1), host("d", "1", time.Minute), host("e", "", time.Hour),
	}
	spec := Spec{Encoding: "altmark"}.Complete()
	for _, row := range []struct {
		name  string
		pairs []Pair
		block Duration
		want  string
	}{
		{"good", []Pair{{"a", "b"}}, second, ""},
		{"apart", []Pair{{"a", "c"}}, second, "the clocks of a and c may differ by 251ms (the error bounds of both), more than a quarter of a block of 1s"},
		{"longer blocks", []Pair{{"a", "c"}}, 2 * second, ""},
		{"one clock", []Pair{{"a", "d"}}, second, ""},
		{"nothing is known", []Pair{{"a", "e"}}, second, ""},
		{"both directions", []Pair{{"a", "c"}, {"c", "a"}}, second, "of a and c"},
		{"many", []Pair{{"a", "c"}, {"b", "c"}, {"b", "d"}, {"c", "d"}, {"d", "b"}}, second, "so may the clocks of 1 other pairs"},
	} {
		spec.Block = row.block
		got := spec.blockWarnings(row.pairs, hosts)
		if row.want == "" && len(got) > 0 || row.want != "" && (len(got) == 0 || !strings.Contains(got[len(got)-1], row.want)) {
			t.Errorf("%s: %q, want %q", row.name, got, row.want)
		}
		if row.name == "both directions" && len(got) != 1 {
			t.Errorf("%s: %q", row.name, got)
		}
	}
	spec.Encoding = "native"
	if got := spec.blockWarnings([]Pair{{"a", "c"}}, hosts); got != nil {
		t.Errorf("without blocks: %q", got)
	}
}
