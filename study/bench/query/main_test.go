package main

import (
	"path/filepath"
	"strings"
	"testing"

	"pillion.dev/study/bench/result/calls"
)

func TestExperimentsCallWithKnownArguments(t *testing.T) {
	calls.Check(t, "bin/bench/query", commands, "../query.yaml")
}

// Every form gets all steps of its answer from an archive of 150 s.
func TestForms(t *testing.T) {
	path := filepath.Join(t.TempDir(), "archive.duckdb")
	if seconds, err := fill(t.Context(), path, 149_001); err != nil || seconds != 150 {
		t.Fatalf("%d s, %v", seconds, err)
	}
	seconds, err := secondsOf(t.Context(), path)
	if err != nil || seconds != 150 {
		t.Fatalf("%d rows of each flow, %v", seconds, err)
	}
	for name, f := range forms {
		first, took, err := f.time(t.Context(), path, seconds, 3)
		if err != nil || first <= 0 || len(took) != 3 || took[0] <= 0 {
			t.Errorf("%s: %d, %v, %v", name, first, took, err)
		}
		if _, _, err := f.time(t.Context(), path, seconds+1, 1); err == nil || !strings.Contains(err.Error(), "the answer has 15") {
			t.Errorf("%s: an incomplete answer gives %v", name, err)
		}
	}
	if _, err := secondsOf(t.Context(), filepath.Join(t.TempDir(), "empty")); err == nil {
		t.Error("an empty archive has rows")
	}
}

// An hour lies within what the archive has.
func TestQuestions(t *testing.T) {
	for flow := range 3 * flowCount {
		for _, seconds := range []int64{1, 200, 3600, 3601, 100_000} {
			q := questionOf(flow, seconds)
			if q.flow >= flowCount || q.span != min(3600, seconds) || q.from.Before(start) || q.to().Sub(start).Seconds() > float64(seconds) {
				t.Fatalf("flow %d of %d s: %+v", flow, seconds, q)
			}
		}
	}
}
