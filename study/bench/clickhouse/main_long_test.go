//go:build long

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"pillion.dev/archive/clickhouse"
)

// TestLongForms: the questions find all rows of a small archive, and both ways store all of theirs.
func TestLongForms(t *testing.T) {
	if _, err := exec.LookPath("clickhouse-server"); err != nil && os.Geteuid() != 0 {
		t.Skip("clickhouse-server is not installed; .ci/install test installs it")
	}
	folder := filepath.Join(t.TempDir(), "clickhouse")
	err := with(t.Context(), folder, func(s *server) error {
		_, err := fill(t.Context(), s, 3, 0, time.Second)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	err = with(t.Context(), folder, func(s *server) error { // started again
		a, err := s.open(clickhouse.Options{})
		if err != nil {
			return err
		}
		defer a.Close()
		rows, length, err := extent(t.Context(), a)
		if err != nil || rows != 3*hosts*batchRows || length != 3*time.Minute {
			t.Errorf("%d rows in %v, %v", rows, length, err)
		}
		for name, ask := range forms {
			if err := ask(t.Context(), a, 5, length); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		for name, insert := range ways {
			if took, err := insert(t.Context(), s, 1); err != nil || took <= 0 {
				t.Errorf("%s: %v, %v", name, took, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
