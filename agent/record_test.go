package agent

import (
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"pillion.dev/internal/outfile"
	"pillion.dev/probe/block"
	"pillion.dev/probe/destination"
	"pillion.dev/probe/flow"
	"pillion.dev/probe/source"
	"pillion.dev/wire"
)

var times = regexp.MustCompile(`(?m)^1[0-9]{18},`)

// TestRecords: what was not measured is empty in a record, and never 0.
func TestRecords(t *testing.T) {
	key := flow.Key{Src: netip.MustParseAddr("192.0.2.1"), Dst: netip.MustParseAddr("192.0.2.2"), Protocol: 17, Sport: 1, Dport: 2}
	packet := destination.Record{Received: time.Unix(0, 5), Key: key, Sequence: 7, Packets: 1, Bytes: 100}
	stamped, blank := packet, packet
	stamped.Modules, stamped.Delay = wire.Delay, 0
	for name, test := range map[string]struct {
		columns []string
		add     func(*outfile.Records) error
		want    string
	}{
		"delay of 0":  {arrivedColumns, func(r *outfile.Records) error { return addArrived(r, &stamped) }, "5,192.0.2.1,192.0.2.2,udp,1,2,7,false,1,100,0," + stamped.Encoding.String() + "\n"},
		"without one": {arrivedColumns, func(r *outfile.Records) error { return addArrived(r, &blank) }, "5,192.0.2.1,192.0.2.2,udp,1,2,7,false,1,100,," + blank.Encoding.String() + "\n"},
		"sent": {sentColumns, func(r *outfile.Records) error {
			return addSent(r, []source.Sent{{Key: key, Start: 3, First: 4, Next: 6, Packets: 2}})
		}, "TIME,192.0.2.1,192.0.2.2,udp,1,2,2,3,4,6,,,\n"},
		"block": {sentColumns, func(r *outfile.Records) error {
			return addBlocks(r, []block.Count{{Key: key, Period: time.Second, Number: 9, Packets: 2}})
		}, "TIME,192.0.2.1,192.0.2.2,udp,1,2,2,,,,9,1000000000,\n"},
		"block with a mark": {sentColumns, func(r *outfile.Records) error {
			return addBlocks(r, []block.Count{{Key: key, Period: time.Second, Number: 9, Packets: 2, Marked: time.Unix(0, 8)}})
		}, "TIME,192.0.2.1,192.0.2.2,udp,1,2,2,,,,9,1000000000,8\n"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "records.csv")
			records, err := outfile.RecordsFile{Path: outfile.Path(path)}.Open(test.columns...)
			if err != nil {
				t.Fatal(err)
			}
			if err := test.add(records); err != nil {
				t.Fatal(err)
			}
			if _, err := records.Close(); err != nil {
				t.Fatal(err)
			}
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			_, got, _ := strings.Cut(string(text), "\n")
			if got = times.ReplaceAllString(got, "TIME,"); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
