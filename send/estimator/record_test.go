package estimator

import (
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pillion.dev/internal/outfile"
	"pillion.dev/send/frame"
	"pillion.dev/send/schedule"
)

// arrivedAt is what a device would have received.
type arrivedAt []int64

func (a arrivedAt) begin(uint32, int, int) error                  { clear(a); return nil }
func (a arrivedAt) arrived(n int) (int, error)                    { return count(a[:n]), nil }
func (a arrivedAt) arrivals(n int) ([]int64, error)               { return a[:n], nil }
func (a arrivedAt) prepare() func(*frame.Header, *schedule.Entry) { return nil }
func (a arrivedAt) Close() error                                  { return nil }

// TestReceiverRecords: each packet that has arrived has one record, also one that its sender did
// not ask for.
func TestReceiverRecords(t *testing.T) {
	path := filepath.Join(t.TempDir(), "records.ndjson")
	records, err := outfile.RecordsFile{Path: outfile.Path(path)}.Open(RecordColumns...)
	if err != nil {
		t.Fatal(err)
	}
	at := make(arrivedAt, 4)
	s := session{receiver: &Receiver{Records: records}, watch: at, flow: &flowRequest{Source: netip.MustParseAddr("192.0.2.1"), Protocol: "udp", SourcePort: 5, DestinationPort: 9}}
	ask := func(line string) {
		t.Helper()
		if _, err := s.handle([]byte(line)); err != nil {
			t.Fatal(err)
		}
	}
	ask(`{"begin":{"first":4294967295,"trains":2,"packets":2}}`)
	at[2] = 70
	ask(`{"arrivals":{"from":0,"count":4}}`)
	at[1] = 80
	s.record(true)
	at[0] = 90 // noticed by nobody until the next round
	ask(`{"begin":{"first":1,"trains":1,"packets":1}}`)
	s.record(true)
	if count, err := records.Close(); err != nil || count.Written != 3 {
		t.Fatalf("%+v, %v", count, err)
	}
	const flow = `,"src":"192.0.2.1","proto":"udp","sport":5,"dport":9,"train":`
	want := `{"arrived_mono_ns":70` + flow + `0,"number":0}` + "\n" + `{"arrived_mono_ns":80` + flow + `4294967295,"number":1}` + "\n" +
		`{"arrived_mono_ns":90` + flow + `4294967295,"number":0}` + "\n"
	text, err := os.ReadFile(path)
	lines := slices.Sorted(strings.Lines(string(text))) // the order of lines from one round is undefined
	if got := strings.Join(lines, ""); err != nil || got != want {
		t.Errorf("got\n%s%v\nwant\n%s", got, err, want)
	}
}
