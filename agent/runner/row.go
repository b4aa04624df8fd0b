package runner

import (
	"errors"
	"net/netip"
	"slices"
	"time"

	"pillion.dev/internal/clock"
	"pillion.dev/measure"
	"pillion.dev/measure/flows"
	"pillion.dev/measure/histogram"
	"pillion.dev/probe/destination"
	"pillion.dev/wire"
	"pillion.dev/wire/fivetuple"
)

// flowRow converts a row of the program to a row of the session.
func (d *deviceDestination) flowRow(r *subscriber, row *destination.Row, now moment, state clock.State) *flows.Row {
	agent := r.task.agentOf(row.Key)
	delay, variation := row.Histograms()
	out := &flows.Row{
		End: now.day, Interval: r.period.length(now), Session: r.task.Session, Source: agent, Device: d.device.Name,
		Flow: flows.Flow{Src: addressText(row.Key.Src), Dst: addressText(row.Key.Dst), Sport: uint32(row.Key.Sport), Dport: uint32(row.Key.Dport)},
		Sum: flows.Sum{
			Counts: flows.Counts{
				Packets: row.Packets, Bytes: row.Bytes, Expected: row.Expected, Lost: row.Lost,
				Duplicated: row.Duplicated, Reordered: row.Reordered, Late: row.Late, Unchecked: row.Unchecked,
			},
			Delay: distribution(row.Delay, delay), IPDV: distribution(row.Variation, variation),
		},
		DestinationClock: flows.BoundOf(int64(state.MaxError)),
	}
	if r.task.Granularity != string(destination.ByHost) {
		out.Proto = protocolText(row.Key.Protocol)
	}
	if slices.Contains(d.pulse.SameClock, agent) { // a clock has no error against itself
		out.DestinationClock, out.SourceClock = flows.BoundOf(0), flows.BoundOf(0)
	} else if ns, known := d.pulse.ClockErrorNs[agent]; known {
		out.SourceClock = flows.BoundOf(ns)
	}
	return out
}

func distribution(s destination.Summary, h *histogram.Histogram) flows.Distribution {
	return flows.NewDistribution(s.Count, s.Min, s.Mean, s.Max, *h)
}

// protocolText is empty for an aggregate of several protocols.
func protocolText(protocol uint8) string {
	if protocol == 0 {
		return ""
	}
	return fivetuple.ProtocolName(protocol)
}

func addressText(a netip.Addr) string {
	if !a.IsValid() {
		return ""
	}
	return a.String()
}

const (
	recordBulk = 1024
	recordWait = 100 * time.Millisecond
)

// copyRecords delivers the records of a program to the sessions that need them, until the
// program is replaced or the destination is closed.
func (d *deviceDestination) copyRecords(probe *destination.Destination, copied chan<- struct{}) {
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
		name := d.device.Name
		d.mu.Unlock()
		if err != nil {
			d.log.Warn("read records", "device", name, "error", err)
		}
		if err != nil || last && n == 0 {
			return
		}
	}
}

func (d *deviceDestination) over(probe *destination.Destination) bool {
	select {
	case <-d.ending:
		return true
	default:
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.probe != probe
}

func (d *deviceDestination) giveRecord(record *destination.Record) error {
	for _, r := range d.subscribers {
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
			measure.StringValue(r.task.Session), measure.StringValue(r.task.agentOf(record.Key)),
			measure.StringValue(d.device.Name),
		}
		sample = append(sample,
			measure.StringValue(addressText(record.Key.Src)), measure.StringValue(addressText(record.Key.Dst)),
			measure.StringValue(protocolText(record.Key.Protocol)),
			measure.Uint32Value(uint32(record.Key.Sport)), measure.Uint32Value(uint32(record.Key.Dport)),
			measure.Uint32Value(record.Sequence), measure.Uint32Value(uint32(record.Packets)),
			measure.Uint32Value(record.Bytes), delay, measure.StringValue(record.Encoding.String()))
		d.sink(&measure.Packets, sample)
	}
	return nil
}
