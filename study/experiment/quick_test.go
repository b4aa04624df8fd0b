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

// TestColumns: names that differ in case or in a hyphen only would be one column of a stream.
func TestColumns(t *testing.T) {
	if got := Column("factor", "Packet-Size"); got != "factor_packet_size" {
		t.Errorf("column is %s", got)
	}
	_, err := Parse([]byte("experiment: c\nfactors: {a-b: [x], A_b: [y]}\nrun: {command: 'true'}\nmeasures: {Rate: {field: r}, rate: {field: r}}\nstop: {blocks: 1}\n"))
	for _, want := range []string{"line 2: factors.A_b: has the column factor_a_b in streams, as a-b has", "line 4: measures.rate: has the column measure_rate in streams, as Rate has"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %v", want, err)
		}
	}
}
