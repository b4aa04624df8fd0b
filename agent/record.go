package agent

import (
	"time"

	"pillion.dev/internal/outfile"
	"pillion.dev/probe/block"
	"pillion.dev/probe/destination"
	"pillion.dev/probe/flow"
	"pillion.dev/probe/source"
	"pillion.dev/wire"
	"pillion.dev/wire/fivetuple"
)

// Columns of the records of a destination, one for each packet, and of a source, one for each
// flow and interval or block.
var (
	arrivedColumns = []string{"received_ns", "src", "dst", "proto", "sport", "dport", "sequence", "single", "packets", "bytes", "delay_ns", "encoding"}
	sentColumns    = []string{"time_ns", "src", "dst", "proto", "sport", "dport", "packets", "number_start", "number_first", "number_next", "block", "period_ns", "marked_ns"}
)

// addFlow adds src, dst, proto, sport and dport.
func addFlow(row *outfile.Row, key flow.Key) *outfile.Row {
	return row.Text(addressText(key.Src)).Text(addressText(key.Dst)).Text(fivetuple.ProtocolName(key.Protocol)).
		Uint(uint64(key.Sport)).Uint(uint64(key.Dport))
}

func addArrived(to *outfile.Records, r *destination.Record) error {
	addFlow(to.Row().Int(r.Received.UnixNano()), r.Key).
		Uint(uint64(r.Sequence)).Bool(r.Single).Uint(uint64(r.Packets)).Uint(uint64(r.Bytes)).
		IntIf(r.Modules&wire.Delay != 0, int64(r.Delay)).Text(r.Encoding.String()).End()
	return nil
}

func addSent(to *outfile.Records, sent []source.Sent) error {
	now := time.Now().UnixNano()
	for _, s := range sent {
		addFlow(to.Row().Int(now), s.Key).Uint(s.Packets).
			Uint(uint64(s.Start)).Uint(uint64(s.First)).Uint(uint64(s.Next)).Null().Null().Null().End()
	}
	return nil
}

func addBlocks(to *outfile.Records, counts []block.Count) error {
	now := time.Now().UnixNano()
	for _, c := range counts {
		addFlow(to.Row().Int(now), c.Key).Uint(c.Packets).Null().Null().Null().
			Uint(c.Number).Int(int64(c.Period)).IntIf(!c.Marked.IsZero(), c.Marked.UnixNano()).End()
	}
	return nil
}
