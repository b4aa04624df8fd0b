//go:build long

package duckdb

import (
	"path/filepath"
	"testing"

	"pillion.dev/archive"
)

// TestLongBytesAreBounded: much more data than the bound is stored, and the file stops growing.
func TestLongBytesAreBounded(t *testing.T) {
	a := open(t, filepath.Join(t.TempDir(), "a"), Options{LogBytes: 1 << 20})
	const bound, each = 4 << 20, 200_000
	a.SetRetention("lines", archive.Retention{Bytes: bound})
	largest, written := int64(0), int64(0)
	for i := range 30 {
		store(t, a, lineBatch(t, uint64(i), i*each, (i+1)*each))
		written += each
		if _, err := a.Retain(t.Context(), epoch); err != nil {
			t.Fatal(err)
		}
		size, err := a.Size()
		if err != nil {
			t.Fatal(err)
		}
		largest = max(largest, size)
	}
	left := count(t, a, "SELECT count(*) FROM lines")
	if largest > 4*bound || left == 0 || left > written/2 {
		t.Errorf("the file grew to %d bytes with a bound of %d; %d of %d rows remain", largest, bound, left, written)
	}
}
