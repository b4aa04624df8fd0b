//go:build long

package duckdb

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
)

// TestLongKill: acknowledged batches are stored after kill -9.
func TestLongKill(t *testing.T) {
	if path := os.Getenv("PILLION_ARCHIVE_CHILD"); path != "" {
		storeForEver(t, path)
		return
	}
	path := filepath.Join(t.TempDir(), "a")
	acknowledged := -1
	for range 10 {
		child := exec.Command(os.Args[0], "-test.run=^TestLongKill$")
		child.Env = append(os.Environ(), "PILLION_ARCHIVE_CHILD="+path)
		out, err := child.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		scanner, seen := bufio.NewScanner(out), 0
		for scanner.Scan() {
			if n, err := strconv.Atoi(scanner.Text()); err == nil {
				acknowledged = max(acknowledged, n)
				if seen++; seen == 20 {
					_ = child.Process.Kill()
				}
			}
		}
		_ = child.Wait()
		a := open(t, path, Options{})
		rows, distinct := count(t, a, "SELECT count(*) FROM clock"), count(t, a, "SELECT count(DISTINCT time) FROM clock")
		d, err := a.Delivered(t.Context(), "x")
		if err != nil || rows < int64(acknowledged+1)*500 || rows != distinct || d["clock"].Rows != rows {
			t.Fatalf("acknowledged %d batches; %d rows, %d of them distinct, delivered %+v, %v", acknowledged+1, rows, distinct, d, err)
		}
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
