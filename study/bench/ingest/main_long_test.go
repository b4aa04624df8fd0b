//go:build long

package main

import (
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// A short run of either kind stores all rows and has all figures of the experiments.
func TestLongRuns(t *testing.T) {
	program := filepath.Join(t.TempDir(), "pillion-server")
	if text, err := exec.Command("go", "build", "-o", program, "pillion.dev/cmd/pillion-server").CombinedOutput(); err != nil {
		t.Fatalf("build server: %v: %s", err, text)
	}
	for name, c := range map[string]struct {
		window int
		want   []string
	}{
		"flood": {2, []string{"answer_p50_ms", "answer_p99_ms", "batch_bytes", "archive_bytes_per_row"}},
		// A batch has the rows of a second, so that the median row is half a second old when it is sent.
		"steady": {0, []string{"answer_p50_ms", "answer_p99_ms", "queryable_p50_ms", "queryable_p99_ms", "delivered"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := settings{server: program, agents: 2, rows: 100, window: c.window, warm: 1500 * time.Millisecond, length: time.Second}
			r, err := s.measure(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, figure := range append(c.want, "rows_per_s", "rows_per_s_min", "memory_mb", "cpu_us_per_row") {
				if value, ok := r[figure].(float64); figure != "batch_bytes" && (!ok || value <= 0) {
					t.Errorf("%s is %v", figure, r[figure])
				}
			}
			if r["missing_rows"] != int64(0) || r["rows"].(int64) < 100 {
				t.Errorf("%v rows, %v of them missing", r["rows"], r["missing_rows"])
			}
			if median, ok := r["queryable_p50_ms"].(float64); ok && median < 490 {
				t.Errorf("the median row took %g ms", median)
			}
			if rows, _ := r["intervals"].([]map[string]any); len(rows) != 1 {
				t.Errorf("intervals are %v", r["intervals"])
			}
		})
	}
}
