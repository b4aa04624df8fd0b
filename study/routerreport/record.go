package routerreport

import (
	"cmp"
	"strconv"

	"pillion.dev/internal/outfile"
	"pillion.dev/probe/router"
	"pillion.dev/wire/fivetuple"
)

// recordColumns of the record of a forwarded packet.
var recordColumns = []string{
	"t1_mono_ns", "t2_mono_ns", "t3_mono_ns", "t4_mono_ns", "input", "output", "src", "dst", "proto", "sport", "dport",
	"bytes", "merged", "segments", "last_t1_mono_ns", "train", "number",
}

// addRecord adds the record of a packet; names maps the index of an interface to its name. Without an
// observed arrival, and a number of the sender, these columns are null.
func addRecord(to *outfile.Records, names map[int]string, r router.Record) {
	name := func(index int) string { return cmp.Or(names[index], strconv.Itoa(index)) } // one may be newer
	to.Add(outfile.If(r.T1 != 0, r.T1), r.T2, r.T3, r.T4, name(r.In), name(r.Out),
		r.Source.Addr().String(), r.Destination.Addr().String(), fivetuple.ProtocolName(r.Protocol), r.Source.Port(), r.Destination.Port(),
		r.Length, r.Merged, r.Segments, outfile.If(r.LastT1 != 0, r.LastT1), outfile.If(r.Sent, r.Train), outfile.If(r.Sent, r.Number))
}
