package server

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"pillion.dev/archive"
	"pillion.dev/measure"
	"pillion.dev/measure/flows"
	"pillion.dev/measure/histogram"
	"pillion.dev/server/alarm"
	"pillion.dev/server/event"
	"pillion.dev/server/live"
	"pillion.dev/server/skew"
	"pillion.dev/server/topology"
	"pillion.dev/session"
)

type noEvents struct{}

func (noEvents) Event(event.Event)   {}
func (noEvents) Change(event.Change) {}

// noAgents are alarm.Agents without labels.
type noAgents struct{}

func (noAgents) Labels() map[string]map[string]string   { return nil }
func (noAgents) Covers(string, string) (a, b time.Time) { return a, b }
func (noAgents) ClockAhead(string) time.Duration        { return 0 }
func (noAgents) Unheard(time.Duration) []string         { return nil }

// meshOf returns a function that hands over the rows of flows of a second between all of so many hosts, a batch for each.
func meshOf(b *testing.B, hosts int) func(now time.Time, add func(archive.Batch)) {
	one := flows.NewDistribution(300, 1e6, 2e6, 1.5e6, histogram.Histogram{})
	for _, ns := range []int64{1_000_000, 1_100_000, 1_200_000, 1_300_000, 1_400_000, 1_500_000, 1_700_000, 2_000_000} {
		one.Histogram.Bounds = append(one.Histogram.Bounds, histogram.Bound(histogram.Index(ns)))
		one.Histogram.Counts = append(one.Histogram.Counts, 37)
	}
	variation := one
	one.Histogram.Offsets = make([]uint64, len(one.Histogram.Counts))
	return func(now time.Time, add func(archive.Batch)) {
		for to := range hosts {
			stream, err := measure.NewStream(&measure.Flows, measure.StreamOptions{}, func(schema *measure.Schema, record arrow.RecordBatch) error {
				add(archive.Batch{Agent: fmt.Sprint("host-", to), Schema: schema, Record: record})
				return nil
			})
			for from := range hosts {
				if from == to {
					continue
				}
				row := flows.Row{
					End: now, Interval: time.Second, Session: "s", Source: fmt.Sprint("host-", from),
					Sum:              flows.Sum{Counts: flows.Counts{Packets: 300, Expected: 300}, Delay: one, IPDV: variation},
					DestinationClock: flows.BoundOf(1e5), SourceClock: flows.BoundOf(1e5),
				}
				err = errors.Join(err, stream.Append(row.Sample(nil)))
			}
			if err := errors.Join(err, stream.Close()); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// BenchmarkMemoryOfLimits reports the memory of each item that Limits bound, of 40 hosts that all measure each other for
// two minutes, with rows of a second.
func BenchmarkMemoryOfLimits(b *testing.B) {
	const hosts, pairs, seconds = 40, 40 * 39, 120
	begin := time.Unix(1_700_000_000, 0)
	now := begin
	clock := func() time.Time { return now }
	log := slog.New(slog.DiscardHandler)
	second := meshOf(b, hosts)
	mesh := func(add func(archive.Batch), tick func()) {
		for range seconds {
			now = now.Add(time.Second)
			second(now, add)
			tick()
		}
	}
	for name, fill := range map[string]func() any{
		"path": func() any {
			t := topology.New(noEvents{}, pairs)
			for from := range hosts {
				for to := range hosts {
					if from != to {
						_ = t.Add(fmt.Sprint("host-", from), fmt.Sprint("host-", to), "s", traced(from, to))
					}
				}
			}
			return t
		},
		"loss_pair": func() any {
			config, err := Config{}.Complete()
			if err != nil {
				b.Fatal(err)
			}
			rules, err := config.rules()
			if err != nil {
				b.Fatal(err)
			}
			l := alarm.New(alarm.Options{Rules: rules, PairsMost: pairs, Events: noEvents{}, Agents: noAgents{}, Now: clock})
			mesh(func(batch archive.Batch) { _ = l.Add(batch) }, l.Tick)
			return l
		},
		"clock_pair": func() any {
			c := skew.New(func(measure.Sample) {}, pairs, clock, log)
			mesh(func(batch archive.Batch) { _ = c.Add(batch) }, c.Tick)
			return c
		},
		"watched_pair": func() any {
			p := live.NewPairs(pairs, clock, log)
			batches := make(chan archive.Batch)
			go func() {
				defer close(batches)
				mesh(func(batch archive.Batch) { batch.Record.Retain(); batches <- batch }, func() {})
			}()
			p.Run(b.Context(), batches)
			return p
		},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				before := heap()
				kept := fill()
				b.ReportMetric(float64(heap()-before)/pairs, "B/"+name)
				runtime.KeepAlive(kept)
			}
		})
	}
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// traced is a path of eight hops.
func traced(from, to int) session.TraceResult {
	result := session.TraceResult{Time: time.Unix(1_700_000_000, 0), Address: fmt.Sprintf("10.1.%d.1", to), Protocol: "udp", Reached: true}
	for hop := range 7 {
		result.Hops = append(result.Hops, session.TraceHop{
			TTL: hop + 1, Sent: 3, Answers: 3, RTT: int64(hop + 1), Address: netip.AddrFrom4([4]byte{192, 168, byte(hop), byte(from*hop + to)}).String(),
		})
	}
	result.Hops = append(result.Hops, session.TraceHop{TTL: 8, Sent: 3, Answers: 3, RTT: 9, Address: result.Address})
	return result
}
