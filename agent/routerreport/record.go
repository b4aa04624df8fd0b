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

// addRecord adds the record of a packet; names are those of interfaces by index. Without an
// observed arrival, and a number of the sender, these columns are null.
func addRecord(to *outfile.Records, names map[int]string, r router.Record) {
	name := func(index int) string { return cmp.Or(names[index], strconv.Itoa(index)) } // one may be newer
	to.Row().IntIf(r.T1 != 0, int64(r.T1)).Uint(r.T2).Uint(r.T3).Uint(r.T4).Text(name(r.In)).Text(name(r.Out)).
		Text(r.Source.Addr().String()).Text(r.Destination.Addr().String()).Text(fivetuple.ProtocolName(r.Protocol)).
		Uint(uint64(r.Source.Port())).Uint(uint64(r.Destination.Port())).
		Uint(uint64(r.Length)).Uint(uint64(r.Merged)).Uint(uint64(r.Segments)).IntIf(r.LastT1 != 0, int64(r.LastT1)).
		IntIf(r.Sent, int64(r.Train)).IntIf(r.Sent, int64(r.Number)).End()
}
