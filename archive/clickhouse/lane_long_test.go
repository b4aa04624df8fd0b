//go:build long

package clickhouse

import (
	"context"
	"testing"

	"pillion.dev/archive"
	"pillion.dev/internal/test/clickhousetest"
)

// TestLongReplicaKilled: a batch whose insert ends with its server is stored once.
func TestLongReplicaKilled(t *testing.T) {
	servers := clickhousetest.StartCluster(t, 1, 2)
	a := open(t, servers.URL("killed"))
	l, err := a.OpenLane(t.Context(), 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	for sequence := range uint64(6) {
		if sequence%2 == 1 {
			servers.Nodes[0][sequence/2%2].Kill()
			servers.Nodes[0][sequence/2%2].Start()
		}
		deadline, cancel := context.WithTimeout(t.Context(), insertMost)
		for {
			stored, _, err := l.Store(deadline, []archive.Batch{ledgerBatch(t, "x", sequence, 100)})
			if err == nil {
				t.Log("batch", sequence, "stored:", stored[0])
				break
			}
			if deadline.Err() != nil {
				t.Fatal(err)
			}
		}
		cancel()
	}
	if d, err := a.Delivered(t.Context(), "x"); err != nil || d[ledgerStream.Name] != (archive.Delivered{Batches: 6, Rows: 600}) || rowsOf(t, a) != 600 {
		t.Errorf("delivered %+v, %v; %d rows", d, err, rowsOf(t, a))
	}
}
