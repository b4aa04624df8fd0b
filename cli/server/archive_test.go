package server

import (
	"testing"

	"pillion.dev/archive"
	"pillion.dev/bus"
	"pillion.dev/internal/test/clickhousetest"
)

// TestArchiveCopy: the archive of a single server is copied while it does not run, and its
// batches are known in the lanes of a fleet.
func TestArchiveCopy(t *testing.T) {
	folder := t.TempDir() + "/data"
	w, stop := serving(t, folder)
	own := join(t, w, "a")
	agent := connect(t, w, own)
	for sequence := range uint64(3) {
		send(t, agent, envelope(t, "a", sequence))
	}
	url := clickhousetest.Start(t).URL("copied")
	if code := Main([]string{"archive", "copy", "--data", folder, "--to", url}); code == 0 {
		t.Error("copied the archive of a running server")
	}
	stop()
	for _, more := range [][]string{{"--dry-run"}, {}, {}} {
		if code := Main(append([]string{"archive", "copy", "--data", folder, "--to", url}, more...)); code != 0 {
			t.Fatalf("%v: exit code %d", more, code)
		}
	}
	for _, arguments := range [][]string{{"--data", t.TempDir(), "--to", url}, {"--data", folder, "--to", "duckdb:" + t.TempDir() + "/x"}, {"--data", folder, "--to", "clickhouse://127.0.0.1:1/x"}} {
		if code := Main(append([]string{"archive", "copy"}, arguments...)); code == 0 {
			t.Errorf("%v: exit code 0", arguments)
		}
	}
	to, err := archive.Open(url, archive.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	l, err := to.(archive.Laned).OpenLane(t.Context(), bus.LaneOf("a"), 1)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for sequence, want := range []bool{false, false, false, true} {
		e := envelope(t, "a", uint64(sequence))
		schema, record, err := e.Decode()
		if err != nil {
			t.Fatal(err)
		}
		stored, rejected, err := l.Store(t.Context(), []archive.Batch{{Agent: "a", Key: e.Key, Oldest: e.Oldest, Schema: schema, Record: record}})
		record.Release()
		if err != nil || len(rejected) > 0 || stored[0] != want {
			t.Errorf("batch %d: stored %v, %v, %v", sequence, stored, rejected, err)
		}
	}
}
