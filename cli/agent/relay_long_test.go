//go:build long

package agent

import (
	"context"
	"path/filepath"
	"testing"

	_ "pillion.dev/archive/duckdb" // registers duckdb:
	"pillion.dev/internal/free"
)

// TestLongThinning: the server is down until the spool is half full. Applications are asked
// for fewer samples, and for all once it has drained; an event reports each.
func TestLongThinning(t *testing.T) {
	n := &noc{folder: filepath.Join(t.TempDir(), "noc"), http: free.Address(t), bus: free.Address(t)}
	n.begin(t)
	h := newHost(t, n, "north", "--spool", "1600000")
	ctx, cancel := context.WithCancel(t.Context())
	r := &reporter{address: h.oml, sender: "north", start: 1_700_000_000, pace: make(chan struct{}, 1)}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r.run(ctx)
	}()
	t.Cleanup(func() { cancel(); <-ended })
	r.allow(1)
	until(t, "the first tuple is in the archive", func() bool { return n.number(t, "SELECT count(*) FROM oml_lab_load") == 1 })
	n.stop()
	const all = 4000
	r.allow(all)
	until(t, "the application is asked for fewer samples", func() bool { return r.thin.Load() > 1 })
	n.begin(t)
	until(t, "the archive has all", func() bool { return n.number(t, "SELECT count(*) FROM oml_lab_load") == all })
	until(t, "an event reports it", func() bool {
		return n.number(t, "SELECT count(*) FROM events WHERE kind = 'thinning' AND about = 'north'") == 1
	})
	until(t, "the application is asked for all samples", func() bool { return r.thin.Load() == 1 })
	until(t, "an event reports the end", func() bool {
		return n.number(t, "SELECT count(*) FROM events WHERE kind = 'thinning-ended' AND about = 'north'") == 1
	})
	until(t, "metadata is stored", func() bool {
		return n.number(t, "SELECT count(DISTINCT value) FROM oml_metadata WHERE key = 'thin' AND domain = 'Lab' AND value IN ('1', '2')") == 2
	})
}
