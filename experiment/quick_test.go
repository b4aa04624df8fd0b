package experiment

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// TestQuick: results of a quick experiment are never those of the experiment itself, and say
// what they are.
func TestQuick(t *testing.T) {
	text := []byte(`experiment: quick
factors: {mode: [a, b]}
run: {command: 'true'}
measures: {rate: {field: rate}}
invalid: "rate < 1"
response: {log_ratio: rate, to: {mode: a}}
stop: {effect: mode, half_width: 1%, budget: 1h}
environment: {pin: {run: 0}, require: {load_below: 0.5}}
`)
	parse := func() *Spec {
		s, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	full, quick, folder := parse(), parse(), t.TempDir()
	quick.Quick()
	if d := quick.Decide(nil, 0); d.Blocks != 3 || quick.Invalid != nil || quick.Environment.Require.LoadBelow != 0 || quick.Environment.Pin["run"] != 0 ||
		len(quick.Environment.Pin) != 1 {
		t.Errorf("quick: %+v, decision %+v", quick, d)
	}
	if err := Create(folder, quick, text, nil, time.Now()); err != nil {
		t.Fatal(err)
	}
	if err := Compare(folder, full); !errors.Is(err, ErrChanged) || !strings.Contains(err.Error(), "quick: removed: true") {
		t.Errorf("compared with the experiment itself: %v", err)
	}
	full.Follow(folder)
	if err := Compare(folder, full); err != nil || !full.IsQuick() {
		t.Errorf("after following the folder: %v, quick %v", err, full.IsQuick())
	}
	other := parse()
	if other.Follow(t.TempDir()); other.IsQuick() {
		t.Error("an empty folder made an experiment quick")
	}
}
