package runner

import (
	"fmt"
	"log/slog"
	"net/netip"
	"testing"
	"time"

	"pillion.dev/measure"
	"pillion.dev/probe/block"
	"pillion.dev/probe/flow"
	"pillion.dev/probe/source"
	"pillion.dev/session"
	"pillion.dev/wire/fivetuple"
)

// sentBench is a sentReader whose source and clock are the test's.
type sentBench struct {
	*sentReader
	sent  []source.Sent
	clock moment
	rows  []measure.Sample
	over  []block.Count
}

func newSentBench(t *testing.T, tasks ...sourceTask) *sentBench {
	t.Helper()
	b := &sentBench{clock: moment{day: time.Unix(1000, 0)}}
	b.sentReader = newSentReader("eth0", b.next, b.nextBlocks, Options{Sink: b.take, Log: slog.New(slog.DiscardHandler), now: func() moment { return b.clock }})
	close(b.ending) // the test calls deliver
	b.ended.Wait()
	b.ending = make(chan struct{})
	b.assign(tasks)
	return b
}

func (b *sentBench) next() ([]source.Sent, error) {
	sent := b.sent
	b.sent = nil
	return sent, nil
}

func (b *sentBench) nextBlocks() ([]block.Count, uint64, error) {
	over := b.over
	b.over = nil
	return over, 3, nil
}

func (b *sentBench) take(schema *measure.Schema, sample measure.Sample) {
	if schema == &measure.Sent {
		b.rows = append(b.rows, append(measure.Sample(nil), sample...))
	}
}

// after returns the rows that are due after so long, as session, peer, port and numbers.
func (b *sentBench) after(wait time.Duration) []string {
	b.clock.day, b.clock.steady = b.clock.day.Add(wait), b.clock.steady+wait
	b.enter()
	b.deliver(b.clock)
	return b.taken()
}

func (b *sentBench) taken() []string {
	at := places(&measure.Sent)
	var texts []string
	for _, row := range b.rows {
		number := func(name string) uint64 { return row[at[name]].Uint64() }
		texts = append(texts, fmt.Sprintf("%s %s %d: %d packets, %d from %d to %d in %v", row[at["session"]].Text(), row[at["peer"]].Text(),
			number("sport"), number("packets"), number("number_start"), number("number_first"), number("number_next"),
			time.Duration(row[at["interval_ns"]].Int64())))
	}
	b.rows = nil
	return texts
}

func sentTaskOf(name string, interval time.Duration, filters ...string) sourceTask {
	task := sourceTask{
		SourceTask: session.SourceTask{Session: name, Modules: []string{"delay", "loss"}, Interval: session.Duration(interval)},
		peers:      map[netip.Addr]string{netip.MustParseAddr("192.0.2.2"): "b"},
	}
	for _, text := range filters {
		f, err := fivetuple.ParseFilter(text)
		if err != nil {
			panic(err)
		}
		task.rules = append(task.rules, f)
	}
	return task
}

func sentBy(port uint16, start, first, next uint32) source.Sent {
	return source.Sent{
		Key:   flow.Key{Src: netip.MustParseAddr("192.0.2.1"), Dst: netip.MustParseAddr("192.0.2.2"), Protocol: 17, Sport: port, Dport: 9},
		Start: start, First: first, Next: next, Packets: uint64(next - first),
	}
}

func same(t *testing.T, got []string, want ...string) {
	t.Helper()
	if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// TestSentRows: each session has rows of its own flows, at its own interval.
func TestSentRows(t *testing.T) {
	older := sentTaskOf("older", 0)
	b := newSentBench(t, sentTaskOf("s", time.Second), sentTaskOf("port", 2*time.Second, "sport=7"), older)
	b.sent = []source.Sent{sentBy(7, 0, 0, 5)}
	same(t, b.after(time.Second), "s b 7: 5 packets, 0 from 0 to 5 in 1s")
	b.sent = []source.Sent{sentBy(7, 0, 5, 9)}
	same(t, b.after(time.Second), "s b 7: 4 packets, 0 from 5 to 9 in 1s", "port b 7: 9 packets, 0 from 0 to 9 in 2s")
	b.sent = []source.Sent{sentBy(8, 0, 0, 3)}
	same(t, b.after(time.Second), "s b 8: 3 packets, 0 from 0 to 3 in 1s")
	same(t, b.after(time.Second))
	other := sentBy(9, 0, 0, 1)
	other.Key.Dst = netip.MustParseAddr("192.0.2.3")
	b.sent = []source.Sent{other}
	same(t, b.after(time.Second))

	t.Run("anew", func(t *testing.T) {
		b := newSentBench(t, sentTaskOf("s", time.Second))
		b.sent = []source.Sent{sentBy(7, 0, 3, 5)}
		b.enter()
		b.sent = []source.Sent{sentBy(7, 65536, 65536, 65537)}
		if got := b.after(time.Second); len(got) != 2 {
			t.Errorf("got %q", got)
		}
	})
	t.Run("ends", func(t *testing.T) {
		b := newSentBench(t, sentTaskOf("s", time.Minute))
		b.sent = []source.Sent{sentBy(7, 0, 0, 5)}
		b.enter()
		b.clock.steady += time.Second
		b.sent = []source.Sent{sentBy(7, 0, 5, 6)}
		if err := b.close(); err != nil {
			t.Fatal(err)
		}
		same(t, b.taken(), "s b 7: 6 packets, 0 from 0 to 6 in 1s")
	})
	t.Run("leaves", func(t *testing.T) {
		b := newSentBench(t, sentTaskOf("s", time.Minute), sentTaskOf("t", time.Minute))
		b.sent = []source.Sent{sentBy(7, 0, 0, 5)}
		b.clock.steady += time.Second
		b.assign([]sourceTask{sentTaskOf("t", time.Minute)})
		same(t, b.taken(), "s b 7: 5 packets, 0 from 0 to 5 in 1s")
	})
}

// TestSentRowsAreBounded: what does not fit into one interval is in a later one.
func TestSentRowsAreBounded(t *testing.T) {
	b := newSentBench(t, sentTaskOf("s", time.Second))
	for port := range uint16(20000) {
		b.sent = append(b.sent, sentBy(port, 0, 0, 1))
	}
	if got := b.after(time.Second); len(got) != sentRowsMost {
		t.Errorf("%d rows, want %d", len(got), sentRowsMost)
	}
	if deferred, err := b.state("s"); deferred != 20000-sentRowsMost || err != nil {
		t.Errorf("%d deferred, %v", deferred, err)
	}
	if got := b.after(time.Second); len(got) != 20000-sentRowsMost {
		t.Errorf("%d rows, want %d", len(got), 20000-sentRowsMost)
	}
}

// TestBlocksAreDelivered: at once, to the sessions with blocks of this length, without numbers.
func TestBlocksAreDelivered(t *testing.T) {
	with, short := sentTaskOf("s", time.Minute), sentTaskOf("short", time.Minute)
	with.Block, short.Block = session.Duration(time.Second), session.Duration(100*time.Millisecond)
	b := newSentBench(t, with, short, sentTaskOf("none", time.Minute))
	key := flow.Key{Src: netip.MustParseAddr("192.0.2.1"), Dst: netip.MustParseAddr("192.0.2.2"), Protocol: 17, Sport: 5, Dport: 9}
	marked := time.Unix(1000, 7)
	other := key
	other.Dst = netip.MustParseAddr("192.0.2.3") // of no peer
	b.over = []block.Count{
		{Key: key, Period: time.Second, Number: 1000, Packets: 12, Marked: marked}, {Key: other, Period: time.Second, Number: 1000, Packets: 1},
		{Key: key, Period: time.Second, Number: 1001, Packets: 2},
	}
	b.enter()
	at := places(&measure.Sent)
	if len(b.rows) != 2 {
		t.Fatalf("%d rows", len(b.rows))
	}
	for i, row := range b.rows {
		if row[at["session"]].Text() != "s" || row[at["block"]].Uint64() != 1000+uint64(i) || row[at["packets"]].Uint64() != []uint64{12, 2}[i] ||
			row[at["interval_ns"]].Int64() != int64(time.Second) || !row[at["time"]].Time().Equal(time.Unix(1001+int64(i), 0)) || row[at["number_next"]].Type() == measure.Uint32 {
			t.Errorf("row %d: %v", i, row)
		}
		if i == 0 && row[at["marked_ns"]].Int64() != marked.UnixNano() || i == 1 && row[at["marked_ns"]].Type() == measure.Int64 {
			t.Errorf("row %d: marked %v", i, row[at["marked_ns"]])
		}
	}
	if missed, none := b.blocksMissed("s"), b.blocksMissed("none"); missed != 3 || none != 0 {
		t.Errorf("%d blocks missed, %d without any", missed, none)
	}
}
