//go:build long

package clickhouse

import (
	"testing"

	"pillion.dev/archive/archivetest"
	"pillion.dev/internal/test/clickhousetest"
)

// TestLongConformanceOfCluster has no quorum: with one, version 18.16 removes rows of the
// last part only after the next insert, for which the suite does not wait.
func TestLongConformanceOfCluster(t *testing.T) {
	servers := clickhousetest.StartCluster(t, 2, 2)
	archivetest.Run(t, opener(func(database string) string { return servers.URL(database) + "&quorum=1" }))
}
