package join

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"pillion.dev/archive"
	"pillion.dev/measure"
	"pillion.dev/session"
)

// fleet is the agents of a test; time is the test's.
type fleet struct {
	mu     sync.Mutex
	able   map[string]bool
	ahead  time.Duration
	fail   error
	hold   chan struct{} // agents answer when it is closed
	taken  []string      // by agent: what they were told
	flight int           // requests at the same time
	most   int
}

func (f *fleet) TakesReports(agent string) bool        { return f.able[agent] }
func (f *fleet) ClockAhead(agent string) time.Duration { return f.ahead }

func (f *fleet) Report(ctx context.Context, agent string, reports []session.SentReport) error {
	f.mu.Lock()
	f.flight++
	f.most = max(f.most, f.flight)
	f.mu.Unlock()
	if f.hold != nil {
		<-f.hold
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.flight--
	for _, r := range reports {
		for _, flow := range r.Flows {
			f.taken = append(f.taken, fmt.Sprintf("%s: %s of %s, %v old, port %d from %d to %d", agent, r.Session, r.Source, time.Duration(r.Age), flow.Sport, flow.First, flow.Next))
		}
	}
	return f.fail
}

type bench struct {
	*Join
	fleet *fleet
	now   time.Time
}

func newBench(able ...string) *bench {
	b := &bench{fleet: &fleet{able: map[string]bool{}}, now: time.Unix(1000, 0)}
	for _, agent := range able {
		b.fleet.able[agent] = true
	}
	b.Join = New(b.fleet)
	b.Join.now = func() time.Time { return b.now }
	return b
}

// row is one of sent_flows.
func row(end time.Time, peer string, port uint32, change ...func(measure.Sample)) measure.Sample {
	sample := measure.Sample{
		measure.TimeValue(end), measure.StringValue("s"), measure.StringValue(peer), measure.StringValue("eth0"),
		measure.StringValue("192.0.2.1"), measure.StringValue("192.0.2.2"), measure.StringValue("udp"),
		measure.Uint32Value(port), measure.Uint32Value(9), measure.Int64Value(int64(time.Second)), measure.Uint64Value(5),
		measure.Uint32Value(0), measure.Uint32Value(10), measure.Uint32Value(15), {}, {},
	}
	for _, c := range change {
		c(sample)
	}
	return sample
}

func batchOf(t *testing.T, rows ...measure.Sample) archive.Batch {
	t.Helper()
	var records []arrow.RecordBatch
	stream, err := measure.NewStream(&measure.Sent, measure.StreamOptions{}, func(_ *measure.Schema, record arrow.RecordBatch) error {
		record.Retain()
		t.Cleanup(record.Release)
		records = append(records, record)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, sample := range rows {
		if err := stream.Append(sample); err != nil {
			t.Fatal(err)
		}
	}
	if err := stream.Close(); err != nil || len(records) != 1 {
		t.Fatalf("%d records, %v", len(records), err)
	}
	return archive.Batch{Agent: "a", Schema: &measure.Sent, Record: records[0]}
}

// tick passes on and returns what agents were told.
func (b *bench) tick(after time.Duration) []string {
	b.now = b.now.Add(after)
	b.Tick(context.Background())
	b.Close()
	b.fleet.mu.Lock()
	defer b.fleet.mu.Unlock()
	taken := b.fleet.taken
	b.fleet.taken = nil
	return taken
}

func (b *bench) add(t *testing.T, rows ...measure.Sample) {
	t.Helper()
	if err := b.Add(batchOf(t, rows...)); err != nil {
		t.Fatal(err)
	}
}

func same(t *testing.T, got []string, want ...string) {
	t.Helper()
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// TestReportsArePassedOn: to the agent of the destination, with their age by the server's
// clock and the name of the agent that delivered them.
func TestReportsArePassedOn(t *testing.T) {
	b := newBench("b", "c")
	b.fleet.ahead = 10 * time.Second
	end := b.now.Add(b.fleet.ahead - 300*time.Millisecond)
	b.add(t, row(end, "b", 1), row(end, "b", 2), row(end, "c", 3), row(end, "older", 4))
	same(t, b.tick(200*time.Millisecond),
		"b: s of a, 500ms old, port 1 from 10 to 15", "b: s of a, 500ms old, port 2 from 10 to 15", "c: s of a, 500ms old, port 3 from 10 to 15")
	same(t, b.tick(time.Second))
	if b.Passed() != 3 || b.Dropped() != 1 {
		t.Errorf("%d passed, %d dropped", b.Passed(), b.Dropped())
	}
	b.fleet.fail = errors.New("away")
	b.add(t, row(end.Add(time.Second), "b", 1))
	b.tick(time.Second)
	if b.Passed() != 3 || b.Dropped() != 2 {
		t.Errorf("%d passed, %d dropped of an agent that does not answer", b.Passed(), b.Dropped())
	}
}

// TestBlocksArePassedOn: a row of a block has no numbers.
func TestBlocksArePassedOn(t *testing.T) {
	b := newBench("b")
	b.add(t, row(b.now, "b", 1, func(s measure.Sample) {
		s[11], s[12], s[13], s[14], s[15] = measure.Value{}, measure.Value{}, measure.Value{}, measure.Uint64Value(77), measure.Int64Value(99)
	}))
	reports, invalid, err := read("a", batchOf(t, row(b.now, "b", 1, func(s measure.Sample) {
		s[11], s[12], s[13], s[14], s[15] = measure.Value{}, measure.Value{}, measure.Value{}, measure.Uint64Value(77), measure.Int64Value(99)
	})).Record)
	if err != nil || invalid != 0 || len(reports) != 1 {
		t.Fatalf("%+v, %d invalid, %v", reports, invalid, err)
	}
	if f := reports[0].Flows[0]; f.Block != 77 || f.Packets != 5 || f.MarkedNs != 99 || f.Start|f.First|f.Next != 0 {
		t.Errorf("%+v", f)
	}
	same(t, b.tick(time.Second), "b: s of a, 1s old, port 1 from 0 to 0")
}

// TestReportsAreBounded: those that are too old, or too many, are dropped and counted.
func TestReportsAreBounded(t *testing.T) {
	b := newBench("b")
	b.add(t, row(b.now.Add(-2*ageMost), "b", 1))
	b.add(t, row(b.now, "b", 2))
	same(t, b.tick(2*ageMost))
	if b.Dropped() != 2 {
		t.Errorf("%d dropped", b.Dropped())
	}
	const many = 20 * session.SentFlowsMax
	for first := 0; first < many; first += session.SentFlowsMax {
		var rows []measure.Sample
		for i := range session.SentFlowsMax {
			rows = append(rows, row(b.now.Add(time.Duration(first)), "b", uint32(first+i)&0xffff))
		}
		b.add(t, rows...)
	}
	taken := 0
	for range 40 {
		got := len(b.tick(time.Second))
		if got > session.SentFlowsMax {
			t.Fatalf("%d flows in one request", got)
		}
		taken += got
	}
	if taken != queueFlows || b.Dropped() != 2+many-queueFlows {
		t.Errorf("%d passed on, %d dropped of %d", taken, b.Dropped(), many)
	}
	if len(b.queues) != 0 {
		t.Errorf("%d queues are kept", len(b.queues))
	}
}

// TestOneRequestAtATime: an agent that is slow gets no second request.
func TestOneRequestAtATime(t *testing.T) {
	b := newBench("b")
	b.fleet.hold = make(chan struct{})
	for range 3 {
		b.add(t, row(b.now, "b", 1))
		b.now = b.now.Add(time.Second)
		b.Tick(context.Background())
	}
	close(b.fleet.hold)
	b.Close()
	if b.fleet.most != 1 {
		t.Errorf("%d requests at a time", b.fleet.most)
	}
	same(t, b.tick(time.Second), "b: s of a, 1s old, port 1 from 10 to 15", "b: s of a, 2s old, port 1 from 10 to 15", "b: s of a, 3s old, port 1 from 10 to 15")
}

// TestInvalidRows: agents may send anything.
func TestInvalidRows(t *testing.T) {
	b := newBench("b")
	for name, change := range map[string]func(measure.Sample){
		"address":  func(s measure.Sample) { s[4] = measure.StringValue("x") },
		"protocol": func(s measure.Sample) { s[6] = measure.StringValue("999") },
		"session":  func(s measure.Sample) { s[1] = measure.Value{} },
		"interval": func(s measure.Sample) { s[9] = measure.Int64Value(-1) },
		"long":     func(s measure.Sample) { s[9] = measure.Int64Value(int64(time.Hour)) },
		"name":     func(s measure.Sample) { s[2] = measure.StringValue(string(make([]byte, 1000))) },
	} {
		before := b.Dropped()
		if err := b.Add(batchOf(t, row(b.now, "b", 1, change))); !errors.Is(err, ErrRow) {
			t.Errorf("%s: %v", name, err)
		}
		if b.Dropped() != before+1 {
			t.Errorf("%s: not counted", name)
		}
	}
	same(t, b.tick(time.Second))
}
