package runner

import (
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"pillion.dev/measure"
	"pillion.dev/measure/histogram"
	"pillion.dev/probe/router"
	"pillion.dev/wire/fivetuple"
)

// stageNames are the names of the stages in the stream router.
var stageNames = [router.Stages]string{"input_queuing", "processing", "output_queuing", "transit", "hold"}

// routerRows delivers the rows of one period.
type routerRows struct {
	sink    Sink
	session string
	day     time.Time
	length  time.Duration
	count   uint64
}

func (w *routerRows) put(schema *measure.Schema, values ...measure.Value) {
	sample := append(measure.Sample{measure.TimeValue(w.day), measure.StringValue(w.session)}, values...)
	w.sink(schema, sample)
	w.count++
}

// pairs delivers a row for each stage that packets passed.
func (w *routerRows) pairs(s *router.Snapshot) {
	for i := range s.Pairs {
		pair := &s.Pairs[i]
		for stage := range pair.Stages {
			d := &pair.Stages[stage]
			if d.Count == 0 {
				continue
			}
			values := []measure.Value{
				measure.StringValue(pair.In.Name), measure.StringValue(pair.Out.Name), measure.StringValue(stageNames[stage]),
				measure.Int64Value(int64(w.length)), measure.Uint64Value(d.Count),
			}
			for _, ns := range []float64{
				float64(d.MinNs), d.Mean(), d.Quantile(0.5), d.Quantile(0.9), d.Quantile(0.99), float64(d.MaxNs),
			} {
				values = append(values, measure.Int64Value(int64(ns)))
			}
			w.put(&measure.Router, appendHistogram(values, &d.Histogram)...)
		}
	}
}

func appendHistogram(sample measure.Sample, h *histogram.Histogram) measure.Sample {
	offsets := measure.Value{}
	if h.Offsets != nil {
		offsets = measure.Uint64ListValue(h.Offsets)
	}
	return append(sample, measure.Int64ListValue(h.Bounds), measure.Uint64ListValue(h.Counts), offsets)
}

// packet delivers the row of a packet of a sender.
func (w *routerRows) packet(r *router.Record, input, output string) {
	nanoseconds := func(known bool, ns uint64) measure.Value {
		if !known {
			return measure.Value{}
		}
		return measure.Int64Value(int64(ns))
	}
	port := func(a netip.AddrPort) measure.Value {
		if r.Protocol != unix.IPPROTO_UDP && r.Protocol != unix.IPPROTO_TCP {
			return measure.Value{}
		}
		return measure.Uint32Value(uint32(a.Port()))
	}
	w.put(&measure.RouterPackets,
		measure.StringValue(r.Source.Addr().String()), measure.StringValue(r.Destination.Addr().String()), measure.StringValue(fivetuple.ProtocolName(r.Protocol)),
		port(r.Source), port(r.Destination), measure.Uint64Value(uint64(r.Train)), measure.Uint64Value(uint64(r.Number)),
		measure.StringValue(input), measure.StringValue(output),
		nanoseconds(r.T1 != 0, r.T2-r.T1), nanoseconds(true, r.T3-r.T2), nanoseconds(true, r.T4-r.T3), nanoseconds(r.T1 != 0, r.T4-r.T1))
}

func (w *routerRows) queues(s *router.Snapshot, peaks map[queueSide]uint64) {
	for i := range s.Queues {
		q := &s.Queues[i]
		side, waited := "output", measure.Value{}
		if q.Input {
			side = "input"
		}
		if q.Departures > 0 {
			waited = measure.Int64Value(int64(q.WaitedNs / q.Departures))
		}
		peak := max(peaks[queueSide{q.Interface.Index, q.Input}], q.RecentMax)
		values := []measure.Value{
			measure.StringValue(q.Interface.Name), measure.StringValue(side), measure.Int64Value(int64(w.length)),
			measure.Float64Value(q.Mean(w.length)), measure.Uint64Value(peak),
			measure.Uint64Value(q.Arrivals), measure.Uint64Value(q.Departures), waited, measure.Uint64Value(q.KernelDepth),
		}
		w.put(&measure.RouterQueues, appendCounts(appendCounts(values, q.Sizes), q.Came)...)
	}
}

// appendCounts appends the values 0, 1, 2 and so on that occurred, and how often each did.
func appendCounts(sample measure.Sample, counts []uint64) measure.Sample {
	values, often := []int64{}, []uint64{}
	for value, n := range counts {
		if n > 0 {
			values, often = append(values, int64(value)), append(often, n)
		}
	}
	return append(sample, measure.Int64ListValue(values), measure.Uint64ListValue(often))
}

// coffee delivers a coffee break.
func (w *routerRows) coffee(b *router.Break) {
	w.put(&measure.RouterBreaks,
		measure.Int64Value(int64(b.LastNs)), measure.Uint32Value(uint32(max(b.CPU, 0))), measure.Uint64Value(b.Depth),
		measure.Uint64Value(b.Since), measure.StringValue(b.Cause), measure.StringValue(b.Task),
		measure.Int64Value(int64(b.SoftirqNs)), measure.Int64Value(int64(b.IRQNs)), measure.Int64Value(int64(b.TaskNs)))
}

func (w *routerRows) account(a *router.Account, breaks uint64) {
	w.put(&measure.RouterAccount,
		measure.Int64Value(int64(w.length)),
		measure.Uint64Value(a.Seen), measure.Uint64Value(a.NoArrival), measure.Uint64Value(a.Forwarded), measure.Uint64Value(a.Dropped),
		measure.Uint64Value(a.Local), measure.Uint64Value(a.Merged), measure.Uint64Value(a.Lost),
		measure.Uint64Value(a.InFlight), measure.Int64Value(a.Unexplained), measure.Uint64Value(a.Own),
		measure.Uint64Value(breaks))
}

// accountCounters returns the counters in a task's state.
func accountCounters(a *router.Account) map[string]uint64 {
	return map[string]uint64{
		"seen": a.Seen, "forwarded": a.Forwarded, "dropped": a.Dropped, "local": a.Local,
		"merged": a.Merged, "lost": a.Lost, "unexplained": uint64(max(a.Unexplained, 0)),
	}
}
