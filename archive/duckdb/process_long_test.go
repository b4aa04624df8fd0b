//go:build long

package duckdb

import "testing"

// TestLongQueryTookGigabytesOfTheServer: other queries, of which one spills to disk.
func TestLongQueryTookGigabytesOfTheServer(t *testing.T) { queryTookGigabytes(t, true) }
