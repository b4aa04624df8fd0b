package runner

import (
	"errors"
	"net/netip"
	"slices"
	"time"

	"pillion.dev/internal/clock"
	"pillion.dev/measure"
	"pillion.dev/measure/histogram"
	"pillion.dev/probe/destination"
	"pillion.dev/probe/flow"
	"pillion.dev/wire"
	"pillion.dev/wire/fivetuple"
)

// flowSample is a row as measure.Flows has it.
func (d *destinationModule) flowSample(r *reader, row *destination.Row, now moment, state clock.State) measure.Sample {
	delay, variation := row.Histograms()
	agent := r.task.peers[row.Key.Src]
	ours, theirs := d.clockErrors(agent, state)
	sample := make(measure.Sample, 0, len(measure.Flows.Fields))
	sample = append(sample,
		measure.TimeValue(now.day),
		measure.StringValue(r.task.Session),
		measure.StringValue(agent),
		measure.StringValue(d.device.Name))
	sample = appendKey(sample, row.Key, r.task.Granularity)
	sample = append(sample,
		measure.Int64Value(int64(r.turn.length(now))),
		measure.Uint64Value(row.Packets), measure.Uint64Value(row.Bytes), measure.Uint64Value(row.Expected),
		measure.Uint64Value(row.Lost), measure.Uint64Value(row.Duplicated), measure.Uint64Value(row.Reordered),
		measure.Uint64Value(row.Late))
	sample = appendSummary(sample, row.Delay)
	sample = appendSummary(sample, row.Variation)
	sample = appendHistogram(sample, delay)
	sample = append(sample,
		measure.Int64ListValue(variation.Bounds), measure.Uint64ListValue(variation.Counts),
		ours, theirs)
	return sample
}

// clockErrors bound the two clocks of a delay. A clock has no error against itself.
func (d *destinationModule) clockErrors(source string, state clock.State) (ours, theirs measure.Value) {
	if slices.Contains(d.pulse.SameClock, source) {
		return measure.Int64Value(0), measure.Int64Value(0)
	}
	if errorNs, ok := d.pulse.ClockErrorNs[source]; ok {
		theirs = measure.Int64Value(errorNs)
	}
	return measure.Int64Value(int64(state.MaxError)), theirs
}

func appendKey(sample measure.Sample, key flow.Key, granularity string) measure.Sample {
	sample = append(sample, addressValue(key.Src), addressValue(key.Dst))
	if granularity == string(destination.ByHost) {
		return append(sample, measure.Value{}, measure.Value{}, measure.Value{})
	}
	sport := measure.Value{}
	if granularity == string(destination.ByFlow) {
		sport = measure.Uint32Value(uint32(key.Sport))
	}
	return append(sample, measure.StringValue(fivetuple.ProtocolName(key.Protocol)), sport, measure.Uint32Value(uint32(key.Dport)))
}

func addressValue(a netip.Addr) measure.Value {
	if !a.IsValid() {
		return measure.Value{}
	}
	return measure.StringValue(a.String())
}

func appendHistogram(sample measure.Sample, h *histogram.Histogram) measure.Sample {
	offsets := measure.Value{}
	if h.Offsets != nil {
		offsets = measure.Uint64ListValue(h.Offsets)
	}
	return append(sample, measure.Int64ListValue(h.Bounds), measure.Uint64ListValue(h.Counts), offsets)
}

// appendSummary: no packet, no figure but the count.
func appendSummary(sample measure.Sample, s destination.Summary) measure.Sample {
	sample = append(sample, measure.Uint64Value(s.Count))
	for _, v := range []int64{s.Min, s.Mean, s.P50, s.P90, s.P99, s.Max} {
		value := measure.Int64Value(v)
		if s.Count == 0 {
			value = measure.Value{}
		}
		sample = append(sample, value)
	}
	return sample
}

const (
	recordBulk = 1024
	recordWait = 100 * time.Millisecond
)

// copyRecords gives the records of a program to the sessions that want them, until
// another program has taken its place or all ends.
func (d *destinationModule) copyRecords(probe *destination.Destination, copied chan<- struct{}) {
	defer close(copied)
	records := make([]destination.Record, recordBulk)
	for {
		last := d.over(probe)
		n, err := probe.ReadRecords(records, time.Now().Add(recordWait))
		d.mu.Lock()
		for i := range n {
			err = errors.Join(err, d.giveRecord(&records[i]))
		}
		d.copying = err
		d.mu.Unlock()
		if err != nil {
			d.log.Warn("read records", "device", d.device.Name, "error", err)
		}
		if err != nil || last && n == 0 {
			return
		}
	}
}

func (d *destinationModule) over(probe *destination.Destination) bool {
	select {
	case <-d.ending:
		return true
	default:
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.probe != probe
}

func (d *destinationModule) giveRecord(record *destination.Record) error {
	for _, r := range d.readers {
		if r.task.local != nil {
			return r.task.local.Record(record)
		}
		if !r.task.Records || !r.task.wants(record.Key) {
			continue
		}
		delay := measure.Value{}
		if record.Modules&wire.Delay != 0 {
			delay = measure.Int64Value(int64(record.Delay))
		}
		sample := measure.Sample{
			measure.TimeValue(record.Received),
			measure.StringValue(r.task.Session), measure.StringValue(r.task.peers[record.Key.Src]),
			measure.StringValue(d.device.Name),
		}
		sample = appendKey(sample, record.Key, string(destination.ByFlow))
		sample = append(sample,
			measure.Uint32Value(record.Sequence), measure.Uint32Value(uint32(record.Packets)),
			measure.Uint32Value(record.Bytes), delay, measure.StringValue(record.Encoding.String()))
		d.sink(&measure.Packets, sample)
	}
	return nil
}
