package alarm

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"pillion.dev/archive"
	"pillion.dev/measure"
	"pillion.dev/measure/flows"
	"pillion.dev/measure/measuretest"
	"pillion.dev/server/event"
	"pillion.dev/server/store"
)

// pairsMost and agentMost are the limits of the tests.
const (
	pairsMost = 65_536
	agentMost = pairsMost / agentShare
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// recorder is an event.Sink that keeps events.
type recorder []event.Event

func (r *recorder) Event(e event.Event) { *r = append(*r, e) }
func (r *recorder) Change(event.Change) {}

// hosts are Agents.
type hosts struct {
	labels  map[string]map[string]string
	away    map[string]bool // do not deliver
	unheard []string
}

func (h *hosts) Labels() map[string]map[string]string { return h.labels }
func (h *hosts) ClockAhead(string) time.Duration      { return 0 }
func (h *hosts) Unheard(time.Duration) []string       { return h.unheard }
func (h *hosts) Covers(_, agent string) (from, until time.Time) {
	if h.away[agent] {
		return from, until
	}
	return start, start.AddDate(1, 0, 0)
}

// bed is an Evaluator with its own clock, which leads.
type bed struct {
	t *testing.T
	*Evaluator
	hosts  hosts
	folder string
	events recorder
	now    time.Time
}

// usual is the rule of most tests.
var usual = Rule{Name: "loss", On: Loss, Above: "0.01"}

func newBed(t *testing.T) *bed { return bedOf(t, []Rule{usual}) }

// bedOf has built-in rules and others.
func bedOf(t *testing.T, builtIn []Rule, rules ...Rule) *bed {
	t.Helper()
	b := &bed{t: t, now: start, folder: t.TempDir(), hosts: hosts{labels: map[string]map[string]string{"a": {"site": "paris"}, "b": {"role": "core"}}}}
	b.restart(builtIn, rules...)
	return b
}

// restart opens the state with an Evaluator that has seen nothing.
func (b *bed) restart(builtIn []Rule, rules ...Rule) {
	b.t.Helper()
	all, err := CompleteRules(builtIn, rules)
	if err != nil {
		b.t.Fatal(err)
	}
	b.Evaluator = New(Options{
		Rules: all, PairsMost: pairsMost, AlarmsMost: pairsMost, Events: &b.events, Agents: &b.hosts, SiteLabel: "site",
		Store: store.NewFiles(b.folder), Now: func() time.Time { return b.now },
	})
	if err := b.Load(b.t.Context()); err != nil {
		b.t.Fatal(err)
	}
}

// save writes the state.
func (b *bed) save() {
	b.t.Helper()
	if err := b.Save(b.t.Context()); err != nil {
		b.t.Error(err)
	}
}

// row is a row of flows; nil means null.
type row struct {
	time            any
	session, source any
	interval        any
	expected, lost  any
}

func (b *bed) add(agent string, rows ...row) {
	b.t.Helper()
	var fields []measuretest.Fields
	for _, r := range rows {
		fields = append(fields, measuretest.Fields{
			"time": r.time, "session": r.session, "source": r.source, "interval_ns": r.interval, "expected": r.expected, "lost": r.lost,
		})
	}
	if err := b.Add(archive.Batch{Agent: agent, Record: measuretest.Record(b.t, &measure.Flows, fields...)}); err != nil {
		b.t.Error(err)
	}
}

// seconds lets time pass with a row of the pair a > b each second.
func (b *bed) seconds(n int, expected, lost uint64) {
	b.t.Helper()
	for range n {
		b.now = b.now.Add(time.Second)
		b.add("b", row{b.now, "s", "a", int64(time.Second), expected, lost})
		b.Tick()
	}
}

func (b *bed) silence(n int) {
	for range n {
		b.now = b.now.Add(time.Second)
		b.Tick()
	}
}

// expect compares the events since the last call, as KIND: MESSAGE.
func (b *bed) expect(want ...string) {
	b.t.Helper()
	var got []string
	for _, e := range b.events {
		got = append(got, e.Kind+": "+e.Message)
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		b.t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	b.events = nil
}

func TestLossBeginsAndEnds(t *testing.T) {
	b := newBed(t)
	b.seconds(60, 1000, 0)
	b.expect()
	b.seconds(1, 1000, 90)
	b.seconds(1, 1000, 140)
	if len(b.events) == 1 {
		want := event.Event{Time: b.now, Kind: "loss", Level: event.Warning, Agent: "a", Peer: "b", Session: "s", Message: b.events[0].Message}
		if b.events[0] != want {
			t.Errorf("got %+v, want %+v", b.events[0], want)
		}
	}
	b.expect("loss: a > b lost 2.3 % (1.93 to 2.71 % with 99 % confidence), 230 of 10,000 packets in 10 s, threshold 1 %")
	b.seconds(20, 1000, 50)
	b.expect() // once only
	b.seconds(15, 1000, 9)
	b.expect() // undecided: the interval has the threshold in it
	b.seconds(31, 1000, 0)
	b.expect()
	b.seconds(11, 1000, 0)
	b.expect("loss-ended: a > b: loss is over after 37 s, at worst 6.3 % in 10 s; now 0 % (0 to 0.05 % with 99 % confidence) in 10 s")
	b.seconds(60, 1000, 0)
	b.expect()
}

func TestLossFlaps(t *testing.T) {
	b := newBed(t)
	for range 10 {
		b.seconds(10, 1000, 30)
		b.seconds(25, 1000, 0)
	}
	b.expect("loss: a > b lost 3 % (1.79 to 4.68 % with 99 % confidence), 30 of 1,000 packets in 10 s, threshold 1 %")
}

func TestLossWithoutTraffic(t *testing.T) {
	b := newBed(t)
	b.seconds(20, 1000, 100)
	b.expect("loss: a > b lost 10 % (7.7 to 12.69 % with 99 % confidence), 100 of 1,000 packets in 10 s, threshold 1 %")
	b.seconds(30, 0, 0)
	b.silence(29)
	b.expect()
	b.silence(1)
	b.expect("loss-ended: a > b: loss is over after 49 s, at worst 10 % in 10 s; no packets for 1 min, so the current figure is unknown")
	b.silence(int(idleFor / time.Second))
	if len(b.pairs)+len(b.of) != 0 {
		t.Errorf("idle pairs were kept: %v, %v", b.pairs, b.of)
	}
}

func TestTooFewPacketsRaiseNoEvent(t *testing.T) {
	b := newBed(t)
	b.seconds(60, 9, 9)
	b.expect()
}

func TestLongIntervals(t *testing.T) {
	b := newBed(t)
	for i := range 6 {
		b.now = b.now.Add(time.Second)
		b.add("b", row{b.now, "s", "a", int64(5 * time.Minute), uint64(1000), uint64(max(0, 20-5*i))})
		b.silence(299)
	}
	b.expect("loss: a > b lost 2 % (1.04 to 3.44 % with 99 % confidence), 20 of 1,000 packets in 5 min, threshold 1 %",
		"loss-ended: a > b: loss is over after 20 min, at worst 2 % in 5 min; now 0 % (0 to 0.53 % with 99 % confidence) in 5 min")
}

// The loss of a pair is that of all its flows together.
func TestFlowsOfAPair(t *testing.T) {
	b := newBed(t)
	b.add("b", row{start, "s", "a", nil, uint64(100), uint64(50)}, row{start, "s", "a", nil, uint64(9900), uint64(0)},
		row{start, "other", "a", nil, uint64(100), uint64(7)}, row{start, "s", nil, nil, uint64(100), uint64(8)})
	if len(b.events) != 2 || b.events[0].Session == b.events[1].Session {
		t.Fatalf("got %+v", b.events)
	}
	for _, e := range b.events {
		if e.Session == "s" && (e.Agent != "b" || e.Peer != "" || !strings.HasPrefix(e.Message, "an unknown source > b lost 8 %")) {
			t.Errorf("got %+v", e)
		}
	}
}

func TestInvalidRows(t *testing.T) {
	far, past := time.Unix(0, math.MaxInt64), time.Unix(0, math.MinInt64)
	tests := map[string]row{
		"no time":         {nil, "s", "a", nil, uint64(1000), uint64(900)},
		"no counts":       {start, "s", "a", nil, nil, nil},
		"more than sent":  {start, "s", "a", nil, uint64(1000), uint64(2000)},
		"absurd counts":   {start, "s", "a", nil, uint64(math.MaxUint64), uint64(math.MaxUint64)},
		"lost alone":      {start, "s", "a", nil, nil, uint64(900)},
		"far ahead":       {far, "s", "a", int64(math.MaxInt64), uint64(1), uint64(1)},
		"far behind":      {past, "s", "a", int64(math.MinInt64), uint64(1), uint64(1)},
		"negative length": {start, "s", "a", int64(-5), uint64(1), uint64(0)},
	}
	for name, bad := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			b.add("b", bad)
			b.seconds(5, 1000, 0)
			b.add("b", bad)
			b.expect()
			b.seconds(2, 1000, 100)
			if len(b.events) != 1 || b.events[0].Time.After(b.now) {
				t.Errorf("events after the invalid row: %+v", b.events)
			}
		})
	}
	b := newBed(t)
	builder := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema([]arrow.Field{{Name: "lost", Type: arrow.BinaryTypes.String}}, nil))
	defer builder.Release()
	builder.Field(0).(*array.StringBuilder).Append("many")
	record := builder.NewRecordBatch()
	defer record.Release()
	if err := b.Add(archive.Batch{Agent: "b", Record: record}); err != nil {
		t.Error(err)
	}
	b.expect()
}

// Delayed rows are counted at their own time and not mixed with current ones.
func TestDelayedRows(t *testing.T) {
	b := newBed(t)
	b.seconds(20, 1000, 0)
	for i := range 100 {
		b.add("b", row{b.now.Add(time.Duration(i-3600) * time.Second), "s", "a", nil, uint64(1000), uint64(500)})
	}
	b.expect()
	b.silence(20)
	b.add("b", row{start.Add(-time.Hour), "s", "a", nil, uint64(1000), uint64(500)})
	if len(b.events) != 1 || !b.events[0].Time.Equal(start.Add(-time.Hour)) {
		t.Errorf("got %+v", b.events)
	}
}

func TestBounds(t *testing.T) {
	b := newBed(t)
	for i := range agentMost + 500 {
		b.add("b", row{start, "s", fmt.Sprintf("%s%d", strings.Repeat("a", 40), i), nil, uint64(1000), uint64(500)})
	}
	if len(b.pairs) != agentMost {
		t.Errorf("%d pairs are kept", len(b.pairs))
	}
	b.add("c", row{start, strings.Repeat("s", 9999), strings.Repeat("\xff", 9999), nil, uint64(1), uint64(0)})
	for k := range b.pairs {
		if len(k.Source) > flows.TextMax || len(k.Session) > flows.TextMax {
			t.Errorf("a name of %d bytes is kept", len(k.Source))
		}
	}
	b.silence(59)
	if len(b.events) != eventsMost {
		t.Errorf("%d events were raised", len(b.events))
	}
	b.events = nil
	b.silence(1)
	if len(b.events) != eventsMost+1 { // the last one summarises the hidden ones
		t.Errorf("%d events were raised", len(b.events))
	}
	if last := b.events[len(b.events)-1]; last.Message != fmt.Sprintf("%d more alarms began in the last 1 min", agentMost-eventsMost) {
		t.Errorf("got %q", last.Message)
	}
}

func TestDisabled(t *testing.T) {
	b := bedOf(t, []Rule{usual}, Rule{Name: "loss", On: Loss, Above: "5%", Disabled: true})
	b.seconds(20, 1000, 1000)
	b.expect()
	if len(b.pairs) != 0 {
		t.Error("pairs are kept although no rule is enabled")
	}
}

func TestWords(t *testing.T) {
	for d, want := range map[time.Duration]string{
		1500 * time.Millisecond: "1.5 s", 10 * time.Second: "10 s", time.Minute: "1 min", 130 * time.Second: "2 min 10 s",
		2 * time.Hour: "2 h", 185 * time.Minute: "3 h 5 min",
	} {
		if got := span(d); got != want {
			t.Errorf("%v: got %q, want %q", d, got, want)
		}
	}
	for share, want := range map[float64]string{0: "0 %", 1: "100 %", 0.00001: "<0.01 %", 0.0025: "0.25 %", 0.1: "10 %"} {
		if got := percent(share); got != want {
			t.Errorf("%v: got %q, want %q", share, got, want)
		}
	}
	for n, want := range map[uint64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567"} {
		if got := count(n); got != want {
			t.Errorf("%d: got %q, want %q", n, got, want)
		}
	}
}
