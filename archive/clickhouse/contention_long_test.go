//go:build long

package clickhouse

import (
	"fmt"
	"sync"
	"testing"

	"pillion.dev/archive"
	"pillion.dev/internal/test/clickhousetest"
)

// TestLongLanesOfOneTable: the lanes of several servers that insert into one table wait for
// one another, and no batch fails.
func TestLongLanesOfOneTable(t *testing.T) {
	const lanes, batches, rows = 16, 10, 200
	servers := clickhousetest.StartCluster(t, 1, 2)
	var group sync.WaitGroup
	for number := range 2 {
		a := open(t, servers.URL("many"))
		for i := range lanes {
			group.Go(func() {
				l, err := a.OpenLane(t.Context(), number*lanes+i, 1)
				if err != nil {
					t.Error(err)
					return
				}
				for sequence := range uint64(batches) {
					stored, _, err := l.Store(t.Context(), []archive.Batch{ledgerBatch(t, fmt.Sprint("x", number, i), sequence, rows)})
					if err != nil || !stored[0] {
						t.Errorf("lane %d, batch %d: %v", i, sequence, err)
					}
				}
			})
		}
	}
	group.Wait()
	if n := rowsOf(t, open(t, servers.URL("many"))); n != 2*lanes*batches*rows {
		t.Errorf("%d rows", n)
	}
}
