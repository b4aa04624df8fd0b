package agent

import (
	"time"

	"pillion.dev/internal/outfile"
	"pillion.dev/probe/block"
	"pillion.dev/probe/destination"
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

func addArrived(to *outfile.Records, r *destination.Record) error {
	k := r.Key
	to.Add(r.Received.UnixNano(), addressText(k.Src), addressText(k.Dst), fivetuple.ProtocolName(k.Protocol), k.Sport, k.Dport,
		r.Sequence, r.Single, r.Packets, r.Bytes, outfile.If(r.Modules&wire.Delay != 0, int64(r.Delay)), r.Encoding.String())
	return nil
}

func addSent(to *outfile.Records, sent []source.Sent) error {
	now := time.Now().UnixNano()
	for _, s := range sent {
		to.Add(now, addressText(s.Key.Src), addressText(s.Key.Dst), fivetuple.ProtocolName(s.Key.Protocol), s.Key.Sport, s.Key.Dport,
			s.Packets, s.Start, s.First, s.Next, nil, nil, nil)
	}
	return nil
}

func addBlocks(to *outfile.Records, counts []block.Count) error {
	now := time.Now().UnixNano()
	for _, c := range counts {
		to.Add(now, addressText(c.Key.Src), addressText(c.Key.Dst), fivetuple.ProtocolName(c.Key.Protocol), c.Key.Sport, c.Key.Dport,
			c.Packets, nil, nil, nil, c.Number, int64(c.Period), outfile.If(!c.Marked.IsZero(), c.Marked.UnixNano()))
	}
	return nil
}
