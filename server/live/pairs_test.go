package live

import (
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pillion.dev/archive"
)

// bench is a Pairs with a clock that tests set.
type bench struct {
	*Pairs
	time time.Time
	log  strings.Builder
}

func newBench(limit int) *bench {
	b := &bench{time: epoch}
	b.Pairs = NewPairs(limit, func() time.Time { return b.time }, slog.New(slog.NewTextHandler(&b.log, nil)))
	return b
}

// take adds rows at a time.
func (b *bench) take(t testing.TB, seconds float64, agent string, rows ...row) {
	t.Helper()
	b.time = at(seconds)
	if err := b.add(batchOf(t, agent, rows...), b.time); err != nil {
		t.Fatal(err)
	}
}

// reach publishes at a time.
func (b *bench) reach(seconds float64) { b.time = at(seconds); b.publish(b.time) }

// follower combines messages like the page does.
type follower struct {
	*Reader
	agents []string
}

// next returns each second's pairs as text.
func (f *follower) next(t testing.TB) map[int64][]string {
	t.Helper()
	seconds, more, err := f.Next()
	if err != nil || more == nil {
		t.Fatal(err)
	}
	all := map[int64][]string{}
	last := int64(math.MinInt64)
	for _, s := range seconds {
		if s.StartMs <= last {
			t.Errorf("second %d after %d", s.StartMs, last)
		}
		last = s.StartMs
		f.agents = append(f.agents, s.Agents...)
		for i := range s.Sources {
			all[s.StartMs/1000-epoch.Unix()] = append(all[s.StartMs/1000-epoch.Unix()], fmt.Sprintf("%s>%s %d", f.agents[s.Sources[i]], f.agents[s.Destinations[i]], s.Packets[i]))
		}
		for _, n := range []int{len(s.Destinations), len(s.Packets), len(s.Expected), len(s.Lost), len(s.Reordered), len(s.Duplicated), len(s.P50), len(s.P99), len(s.Rate), len(s.ClockErrors)} {
			if n != len(s.Sources) {
				t.Errorf("lists of %d and %d", n, len(s.Sources))
			}
		}
	}
	return all
}

func (f *follower) want(t testing.TB, when string, want map[int64][]string) {
	t.Helper()
	got := f.next(t)
	for _, list := range got {
		slices.Sort(list)
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: got %v, want %v", when, got, want)
	}
}

// TestPairs: a second is sent once it is over and quiet, late rows cause it to be sent
// again with what changed, and a new reader begins with all figures.
func TestPairs(t *testing.T) {
	b := newBench(100)
	f := &follower{Reader: b.Reader(Scope{}, 60)}
	f.want(t, "at first", map[int64][]string{})
	b.take(t, 1.1, "b", measured(1.001, "s", "a", 10, 1024), measured(1.001, "s", "", 99, 1024))
	b.take(t, 1.15, "c", measured(1.002, "s", "a", 20, 1024))
	b.reach(1.2)
	f.want(t, "before it is quiet", map[int64][]string{})
	b.reach(1.4)
	f.want(t, "quiet", map[int64][]string{0: {"a>b 10", "a>c 20"}})
	f.want(t, "nothing new", map[int64][]string{})
	b.take(t, 2.2, "c", measured(1.003, "s", "a", 5, 1024), measured(2.003, "s", "a", 7, 1024))
	b.reach(2.6)
	f.want(t, "late rows", map[int64][]string{0: {"a>c 25"}, 1: {"a>c 7"}})
	for i := range 40 { // rows keep arriving
		b.take(t, 3.1+float64(i)/50, "b", measured(3.001, "s", "a", 1, 1024))
		if i == 35 {
			b.reach(3.9)
			f.want(t, "it does not wait for quiet indefinitely", map[int64][]string{2: {"a>b 36"}})
		}
	}
	b.reach(4.5)
	f.want(t, "then the rest", map[int64][]string{2: {"a>b 40"}})
	late := &follower{Reader: b.Reader(Scope{}, 60)}
	late.want(t, "history", map[int64][]string{0: {"a>b 10", "a>c 25"}, 1: {"a>c 7"}, 2: {"a>b 40"}})
	brief := &follower{Reader: b.Reader(Scope{Session: "s"}, 3)}
	brief.want(t, "short history of a session", map[int64][]string{1: {"a>c 7"}, 2: {"a>b 40"}})
	none := &follower{Reader: b.Reader(Scope{Session: "other"}, 60)}
	none.want(t, "no such session", map[int64][]string{})
	b.reach(62.5)
	b.Reader(Scope{}, 60)
	(&follower{Reader: b.Reader(Scope{}, 60)}).want(t, "a minute later", map[int64][]string{2: {"a>b 40"}})
	b.reach(200)
	for _, s := range b.shards {
		if len(s.ids) != 0 || len(b.names.ids) != 0 || len(b.names.text) != 0 || len(s.seconds) != 0 || len(s.pairs) != 0 {
			t.Errorf("idle pairs are kept: %v, %v", s.ids, b.names.ids)
		}
	}
	b.take(t, 201, "x", measured(201, "s", "a", 3, 1024))
	b.reach(202)
	f.want(t, "a key is reused", map[int64][]string{200: {"a>x 3"}})
}

// TestPairsFigures: figures of one row, and of the sum of several.
func TestPairsFigures(t *testing.T) {
	b := newBench(100)
	one := measured(1.0005, "s", "one", 10, 1024)
	one["bytes"], one["packets"], one["source_clock_error_ns"] = 1<<20, uint64(math.MaxUint64), nil
	one["reordered"], one["duplicated"] = 3, 4
	long := measured(9.5, "s", "long", 10, 1024)
	long["interval_ns"], long["bytes"] = 10*time.Second, 1250
	none := row{"time": at(1), "session": "s", "source": "none", "interval_ns": time.Second, "expected": 4, "lost": 4, "delay_count": 0}
	half := measured(0.5, "s", "half", 10, 2048)
	half["interval_ns"] = 500 * time.Millisecond
	other := measured(1, "s", "half", 10, 4096)
	other["interval_ns"] = 500 * time.Millisecond
	b.take(t, 1.1, "b", one, none, half)
	b.take(t, 1.2, "b", other)
	b.reach(2)
	b.take(t, 9.6, "b", long)
	b.reach(10)
	seconds, _, _ := b.Reader(Scope{}, 60).Next()
	type figures struct {
		lost, packets, reordered, duplicated uint32
		p50, rate, clock                     float32
	}
	got, agents := map[string]figures{}, []string{}
	for _, s := range seconds {
		agents = append(agents, s.Agents...)
		for i, source := range s.Sources {
			got[fmt.Sprint(agents[source], s.StartMs/1000-epoch.Unix())] = figures{s.Lost[i], s.Packets[i], s.Reordered[i], s.Duplicated[i], s.P50[i], s.Rate[i], s.ClockErrors[i]}
		}
	}
	nan := float32(math.NaN())
	// The value of rank 5 of the 10 in [1024, 1056) is 1038. Ranks 1 to 10 of the 20 values of half are in [2048, 2112).
	for name, want := range map[string]figures{
		"one0": {1, math.MaxUint32, 3, 4, 1038, 8 << 20, nan}, "none0": {4, 0, 0, 0, nan, 0, nan}, "half0": {2, 20, 0, 0, 2108, 16000, 30}, "long4": {1, 10, 0, 0, 1038, 1000, 30},
	} {
		if fmt.Sprint(got[name]) != fmt.Sprint(want) {
			t.Errorf("%s: got %v, want %v", name, got[name], want)
		}
	}
	if len(got) != 4 {
		t.Errorf("got %v", got)
	}
}

// TestPairsOfSessions: each pair has the figures of the session with the most packets.
func TestPairsOfSessions(t *testing.T) {
	b := newBench(100)
	f, s1 := &follower{Reader: b.Reader(Scope{}, 60)}, &follower{Reader: b.Reader(Scope{Session: "s1"}, 60)}
	b.take(t, 1.1, "b", measured(1, "s1", "a", 10, 1024))
	b.reach(1.5)
	f.want(t, "one session", map[int64][]string{0: {"a>b 10"}})
	s1.want(t, "one session", map[int64][]string{0: {"a>b 10"}})
	b.take(t, 1.6, "b", measured(1, "s2", "a", 30, 1024))
	b.reach(2)
	f.want(t, "one that sees more", map[int64][]string{0: {"a>b 30"}})
	s1.want(t, "one that sees more", map[int64][]string{})
	b.take(t, 2.1, "b", measured(1, "s1", "a", 11, 1024))
	b.reach(2.5)
	f.want(t, "the other changes", map[int64][]string{})
	s1.want(t, "the other changes", map[int64][]string{0: {"a>b 21"}})
	b.take(t, 2.6, "b", measured(1, "s1", "a", 11, 1024))
	b.reach(3)
	f.want(t, "the other sees more now", map[int64][]string{0: {"a>b 32"}})
}

// TestPairsRefused: rows beyond a limit are counted and logged once.
func TestPairsRefused(t *testing.T) {
	b := newBench(2)
	f := &follower{Reader: b.Reader(Scope{}, 60)}
	for _, source := range []string{"a", "c", "d", "e", "a\xff"} {
		b.take(t, 1.1, "b", measured(1, "s", source, 10, 1024))
	}
	b.take(t, 1.1, "b", measured(100, "s", "a", 10, 1024), measured(101, "s", "a", 10, 1024), measured(-61, "s", "a", 10, 1024))
	b.reach(2)
	f.want(t, "two fit", map[int64][]string{0: {"a>b 10", "c>b 10"}})
	if b.refused.Load() != 3 || b.early.Load() != 2 || strings.Count(b.log.String(), "\n") != 2 {
		t.Errorf("refused %d, early %d, log %s", b.refused.Load(), b.early.Load(), &b.log)
	}
}

// TestPairsOfAFastClock: rows of a host whose clock is ahead are shown.
func TestPairsOfAFastClock(t *testing.T) {
	b := newBench(2)
	f := &follower{Reader: b.Reader(Scope{}, 60)}
	b.take(t, 1.1, "b", measured(31, "s", "a", 10, 1024))
	b.reach(2)
	f.want(t, "30 s ahead", map[int64][]string{30: {"a>b 10"}})
}

// BenchmarkPairs is one second of 200 hosts, all to all: rows of each come in one
// batch, and two readers follow.
func BenchmarkPairs(b *testing.B) {
	const hosts = 200
	p := newBench(100_000)
	var batches []archive.Batch
	for to := range hosts {
		var rows []row
		for from := range hosts {
			if from != to {
				rows = append(rows, measured(1, "s", fmt.Sprint("host-", from), 300, 4_000_000, 4_131_072, 4_262_144, 4_393_216, 4_524_288, 4_655_360, 4_786_432, 4_917_504))
			}
		}
		batches = append(batches, batchOf(b, fmt.Sprint("host-", to), rows...))
	}
	readers := []*Reader{p.Reader(Scope{}, 60), p.Reader(Scope{Session: "s"}, 60)}
	for b.Loop() {
		for _, batch := range batches {
			if err := p.add(batch, at(1.1)); err != nil {
				b.Fatal(err)
			}
		}
		p.reach(2)
		for _, r := range readers {
			if seconds, _, err := r.Next(); err != nil || len(seconds) != 1 || len(seconds[0].Sources) != hosts*(hosts-1) {
				b.Fatal(err)
			}
		}
		for _, s := range p.shards {
			clear(s.seconds)
		}
	}
}
