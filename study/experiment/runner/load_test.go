package runner

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pillion.dev/study/experiment"
)

// busyFor returns readings of a machine with one busy processor that is idle after a while.
func busyFor(length time.Duration) func() (processorTime, bool) {
	begin := time.Now()
	return func() (processorTime, bool) {
		now := time.Now()
		return processorTime{busy: min(now.Sub(begin), length).Seconds(), all: now.Sub(begin).Seconds(), at: now}, true
	}
}

const required = `experiment: required
factors: {mode: [none]}
run: {command: 'echo "{{\"rate\": 1}}"', settle: 0s}
measures: {rate: {field: rate}}
stop: {blocks: 2BUDGET}
environment: {require: {load_below: 0.5, wait: WAIT}}
`

// TestLoadBelow: runs wait until others keep few processors busy, say so, and give up when
// the time to wait or the budget is over.
func TestLoadBelow(t *testing.T) {
	for name, c := range map[string]struct {
		busy         time.Duration
		wait, budget string
		wants        error
		why          string
		rows         int
	}{
		"becomes idle": {450 * time.Millisecond, "10s", "", nil, "", 2},
		"wait is over": {time.Hour, "250ms", "", ErrLoad, "the machine is too busy: others keep 1.00 processors busy, the limit is 0.5, after waiting for 250ms", 1},
		"budget is":    {time.Hour, "10m", ", budget: 300ms", ErrBudget, "the budget does not suffice: 300ms are over while waiting", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o, log := options(t, strings.NewReplacer("WAIT", c.wait, "BUDGET", c.budget).Replace(required))
			o.processors = busyFor(c.busy)
			begin := time.Now()
			if err := Run(t.Context(), o); !errors.Is(err, c.wants) {
				t.Errorf("error is %v, want %v", err, c.wants)
			}
			if took := time.Since(begin); took < min(c.busy, 250*time.Millisecond) {
				t.Errorf("it took only %s", took)
			}
			if !strings.Contains(log.String(), "waiting: others keep 1.00 processors busy, the limit is 0.5") {
				t.Errorf("it did not say that it waits:\n%s", log)
			}
			rows := rowsOf(t, o.Folder)
			if len(rows) != c.rows || rows[0].Load == nil || rows[0].Valid != (c.wants == nil) || !strings.HasPrefix(rows[0].Why, c.why) {
				t.Errorf("rows are %+v, want %q", rows, c.why)
			}
			if c.wants == nil && (*rows[0].Load >= 0.5 || rows[0].Seconds < c.busy.Seconds()/2) {
				t.Errorf("the first run began at a load of %g after %g s", *rows[0].Load, rows[0].Seconds)
			}
		})
	}
}

// TestBudgetAfterBlocks: what is complete when the budget is over is the result.
func TestBudgetAfterBlocks(t *testing.T) {
	o, log := options(t, strings.NewReplacer("WAIT", "10m", "BUDGET", ", budget: 700ms").Replace(required))
	idle := busyFor(0)
	runs := 0
	busy := busyFor(time.Hour)
	o.processors = func() (processorTime, bool) {
		if runs++; runs <= 2 {
			return idle()
		}
		return busy()
	}
	if err := Run(t.Context(), o); err != nil {
		t.Error(err)
	}
	if rows := rowsOf(t, o.Folder); len(rows) != 2 || !rows[0].Valid || rows[1].Valid {
		t.Errorf("rows are %+v", rows)
	}
	if !strings.Contains(log.String(), "the budget does not suffice") {
		t.Errorf("it did not say why it ended:\n%s", log)
	}
	if p := experiment.Progress(o.Spec, rowsOf(t, o.Folder)); !p.OverBudget || p.Blocks != 1 {
		t.Errorf("progress is %+v", p)
	}
}

// TestPreparationsCount: the time before the first run is part of the budget.
func TestPreparationsCount(t *testing.T) {
	o, _ := options(t, strings.Replace(deterministic1, "blocks: 1", "blocks: 1, budget: 1ns", 1))
	if err := Run(t.Context(), o); !errors.Is(err, ErrBudget) {
		t.Errorf("error is %v", err)
	}
	if rows := rowsOf(t, o.Folder); len(rows) != 0 {
		t.Errorf("rows are %+v", rows)
	}
	o, _ = options(t, strings.Replace(deterministic1, "blocks: 1", "blocks: 2, budget: 1h", 1))
	if err := Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	rows := rowsOf(t, o.Folder)
	if len(rows) != 2 || !(rows[0].Prepared > 0) || rows[1].Prepared != 0 {
		t.Fatalf("rows are %+v", rows)
	}
	if got, want := experiment.Spent(rows).Seconds(), rows[0].Prepared+rows[0].Seconds+rows[1].Seconds; got < want-1e-6 || got > want+1e-6 {
		t.Errorf("spent %g s, want %g", got, want)
	}
}

// TestWarmup: the load first runs for a while, is interrupted, and what it printed is ignored.
func TestWarmup(t *testing.T) {
	folder := t.TempDir()
	o, _ := options(t, strings.ReplaceAll(`experiment: warm
factors: {mode: [none]}
run:
  command: |
    trap 'echo $n >> FOLDER/interrupted; exit' INT
    n=$(($(cat FOLDER/number 2>/dev/null) + 1)); echo $n > FOLDER/number
    echo "{\"rate\": $n}"
    test $(($n % 2)) = 0 || for second in 1 2 3 4 5 6 7 8 9; do sleep 1; done
  warmup: 1s
  settle: 0s
measures: {rate: {field: rate}}
stop: {blocks: 2}
`, "FOLDER", folder))
	if err := Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	rows := rowsOf(t, o.Folder)
	if len(rows) != 2 || rows[0].Measures["rate"] != 2 || rows[1].Measures["rate"] != 4 || rows[0].Seconds < 1 {
		t.Errorf("rows are %+v, want the second and the fourth execution", rows)
	}
	if text, err := os.ReadFile(filepath.Join(folder, "interrupted")); err != nil || string(text) != "1\n3\n" {
		t.Errorf("interrupted were %q, %v, want the first and the third", text, err)
	}
}
