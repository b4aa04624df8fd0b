package runner

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"pillion.dev/measure"
	"pillion.dev/measure/module"
	"pillion.dev/probe/source"
)

// roundBench is a sentBench whose source has round trips, too.
type roundBench struct {
	*sentBench
	at     map[string]int
	rounds []source.Round
	failed error
	rows   []measure.Sample
}

func newRoundBench(t *testing.T, tasks ...sourceTask) *roundBench {
	t.Helper()
	b := &roundBench{sentBench: newSentBench(t), at: places(&measure.RoundTrips)}
	b.sink = func(schema *measure.Schema, sample measure.Sample) {
		if len(sample) != len(schema.Fields) {
			t.Errorf("%s: %d values of %d fields", schema.Name, len(sample), len(schema.Fields))
		}
		if schema == &measure.RoundTrips {
			b.rows = append(b.rows, append(measure.Sample(nil), sample...))
		}
	}
	b.readRounds(func() ([]source.Round, error) {
		rounds := b.rounds
		b.rounds = nil
		return rounds, b.failed
	})
	b.assign(tasks)
	return b
}

// after returns the rows that are due after so long.
func (b *roundBench) after(wait time.Duration) []string {
	b.sentBench.after(wait)
	return b.taken()
}

func (b *roundBench) taken() []string {
	var texts []string
	for _, row := range b.rows {
		text := func(name string) string {
			if row[b.at[name]].IsNull() {
				return "null"
			}
			return fmt.Sprint(time.Duration(row[b.at[name]].Int64()))
		}
		spans := ""
		for _, part := range []string{"rtt", "host", "network"} {
			spans += fmt.Sprintf(", %s %s %s %s", part, text(part+"_min_ns"), text(part+"_mean_ns"), text(part+"_max_ns"))
		}
		texts = append(texts, fmt.Sprintf("%s %s %s %d: %d and %d%s within %s in %s", row[b.at["session"]].Text(), row[b.at["peer"]].Text(),
			row[b.at["proto"]].Text(), row[b.at["sport"]].Uint64(), row[b.at["count"]].Uint64(), row[b.at["refused"]].Uint64(), spans,
			text("uncertainty_ns"), text("interval_ns")))
	}
	b.rows = nil
	return texts
}

func roundTaskOf(name string, interval time.Duration, filters ...string) sourceTask {
	task := sentTaskOf(name, interval, filters...)
	task.Modules = []string{"loss", module.RoundTrip.Name}
	return task
}

// roundOf has one round trip for each of the times of the host, with 8 ms of network.
func roundOf(port uint16, hosts ...time.Duration) source.Round {
	all := source.Round{Key: sentBy(port, 0, 0, 1).Key}
	for _, host := range hosts {
		span := func(d time.Duration) source.Span { return source.Span{Sum: d, Min: d, Max: d} }
		const network = 8 * time.Millisecond
		all.Add(source.Round{Count: 1, Round: span(host + network), Host: span(host), Network: span(network), Uncertainty: host >> 15})
	}
	return all
}

// TestRoundRows: each session that measures round trips has those of its own flows, at its own interval.
func TestRoundRows(t *testing.T) {
	const ms = time.Millisecond
	others := sentTaskOf("others", time.Second)
	b := newRoundBench(t, roundTaskOf("s", time.Second), roundTaskOf("port", 2*time.Second, "sport=7"), others)
	b.rounds = []source.Round{roundOf(7, 2*ms, 4*ms)}
	same(t, b.after(time.Second), "s b udp 7: 2 and 0, rtt 10ms 11ms 12ms, host 2ms 3ms 4ms, network 8ms 8ms 8ms within 122ns in 1s")
	refused := roundOf(7)
	refused.Strange = 1
	b.rounds = []source.Round{refused}
	same(t, b.after(time.Second),
		"s b udp 7: 0 and 1, rtt null null null, host null null null, network null null null within null in 1s",
		"port b udp 7: 2 and 1, rtt 10ms 11ms 12ms, host 2ms 3ms 4ms, network 8ms 8ms 8ms within 122ns in 2s")
	// Several readings are one row, and so is what is read when the session ends.
	b.rounds = []source.Round{roundOf(8, 2*ms)}
	b.enter()
	b.rounds = []source.Round{roundOf(8, 8*ms)}
	b.enter()
	b.clock.steady += time.Second / 2
	b.rounds = []source.Round{roundOf(8, 5*ms)}
	b.assign([]sourceTask{others})
	same(t, b.taken(), "s b udp 8: 3 and 0, rtt 10ms 13ms 16ms, host 2ms 5ms 8ms, network 8ms 8ms 8ms within 244ns in 500ms")
	b.rounds = []source.Round{roundOf(9, ms)}
	same(t, b.after(time.Second))
}

// TestRoundRowsAreBounded: round trips of flows for which there is no room are counted, and a reading that fails is reported.
func TestRoundRowsAreBounded(t *testing.T) {
	b := newRoundBench(t, roundTaskOf("s", time.Second))
	for port := range uint16(roundsMost + 3) {
		b.rounds = append(b.rounds, roundOf(port, time.Millisecond))
	}
	if got := b.after(time.Second); len(got) != roundsMost {
		t.Errorf("%d rows, want %d", len(got), roundsMost)
	}
	if dropped := b.droppedRounds("s"); dropped != 3 {
		t.Errorf("%d dropped, want 3", dropped)
	}
	b.failed = errors.New("no such map")
	b.after(time.Second)
	if _, err := b.state("s"); !errors.Is(err, b.failed) {
		t.Errorf("reported %v", err)
	}
}
