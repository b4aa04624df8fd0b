package sender

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"pillion.dev/internal/outfile"
	"pillion.dev/send/dispatch"
	"pillion.dev/send/reply"
)

// TestSendRecords: times that were not taken are empty.
func TestSendRecords(t *testing.T) {
	path := filepath.Join(t.TempDir(), "records.csv")
	records, err := outfile.RecordsFile{Path: outfile.Path(path)}.Open(recordColumns...)
	if err != nil {
		t.Fatal(err)
	}
	sent := dispatch.Record{Train: 1, Number: 2, Intended: 100, Handed: 90, Driver: 101, Fate: dispatch.Sent}
	failed := dispatch.Record{Train: 1, Number: 3, Intended: 200, Fate: dispatch.Failed, Error: errors.New("no, not")}
	addRecord(records, packet(sent, &reply.Reply{Kind: "echo", From: netip.MustParseAddr("192.0.2.2"), At: 150}, false))
	addRecord(records, packet(failed, nil, true))
	if _, err := records.Close(); err != nil {
		t.Fatal(err)
	}
	want := "train,number,intended_ns,handed_ns,driver_ns,driver_source,hardware_ns,late,fate,error,reply,reply_from,reply_ns,round_trip_ns\n" +
		"1,2,100,90,101," + sent.Source.String() + ",,false,sent,,echo,192.0.2.2,150,49\n" +
		"1,3,200,,," + failed.Source.String() + ",,true,failed,\"no, not\",,,,\n"
	if text, err := os.ReadFile(path); err != nil || string(text) != want {
		t.Errorf("got\n%s%v\nwant\n%s", text, err, want)
	}
}
