package tester

import (
	"errors"
	"strings"
	"testing"
	"time"

	"pillion.dev/send/search"
)

// TestJudge: loss counts whatever the sender left out, and nothing that the sender left out
// counts as loss.
func TestJudge(t *testing.T) {
	tester := &Tester{Options: Options{Loss: 0.001, Shortfall: 0.01, Late: time.Millisecond}}
	for name, row := range map[string]struct {
		trial Trial
		want  search.Verdict
	}{
		"all arrived":        {Trial{Frames: 1000, Sent: 1000, Received: 1000}, search.Passed},
		"accepted loss":      {Trial{Frames: 1000, Sent: 1000, Received: 999}, search.Passed},
		"loss":               {Trial{Frames: 1000, Sent: 1000, Received: 998}, search.Lossy},
		"few left out":       {Trial{Frames: 1000, Sent: 990, Received: 990}, search.Passed},
		"many left out":      {Trial{Frames: 1000, Sent: 989, Received: 989}, search.Invalid},
		"left out, and lost": {Trial{Frames: 1000, Sent: 900, Received: 800}, search.Lossy},
		"burst with a gap":   {Trial{Frames: 1000, Sent: 1000, Received: 1000, stall: 2 * time.Millisecond}, search.Invalid},
		"nothing sent":       {Trial{Frames: 1000}, search.Invalid},
	} {
		if row.trial.Sent > 0 {
			row.trial.Loss = float64(row.trial.Sent-row.trial.Received) / float64(row.trial.Sent)
		}
		tester.judge(&row.trial)
		if row.trial.Verdict != row.want || (row.trial.Cause == "") == (row.want == search.Invalid) {
			t.Errorf("%s: %s %q, want %s", name, row.trial.Verdict, row.trial.Cause, row.want)
		}
	}
}

// TestTrial counts in a real network: every frame is sent, left out or lost, and a router
// slower than the load loses frames. What cannot be measured is refused.
func TestTrial(t *testing.T) {
	r := newRig(t)
	tester := r.tester(r.options())
	slow, err := tester.trial(t.Context(), load{size: 1514, frames: 100, framesPerSecond: 500})
	if err != nil || slow.Received != slow.Sent || slow.Loss != 0 || slow.Delays.Frames != int(slow.Sent) || slow.Delays.Min <= 0 {
		t.Errorf("%+v, %v", slow, err)
	}
	r.limit(1e6, 15000)
	burst, err := tester.trial(t.Context(), load{size: 1514, frames: 200})
	if err != nil || burst.Sent != 200 || burst.Received >= 30 || burst.Verdict != search.Lossy {
		t.Errorf("%+v, %v", burst, err)
	}
	if n := strings.Count(r.out.String(), `{"trial":`); n != 2 {
		t.Errorf("%d trials reported:\n%s", n, &r.out)
	}
	r.checkRefusals(t)
}

// TestLearning: frames from which devices learn are sent however late they are, on a machine that stalls.
func TestLearning(t *testing.T) {
	r := newRig(t)
	o := r.options()
	o.Late = time.Nanosecond
	tester := r.tester(o)
	trial, err := tester.run(t.Context(), load{size: 128, frames: 100, framesPerSecond: 1e9, learning: true})
	if err != nil || trial.Sent != 100 || trial.Received != 100 {
		t.Errorf("%+v, %v", trial, err)
	}
}

// checkRefusals: a path on which nothing arrives, and options out of range.
func (r *rig) checkRefusals(t *testing.T) {
	t.Helper()
	o := r.options()
	o.Wait, o.Receive, o.ReceiveNamespace = 50*time.Millisecond, "out0", r.open(r.router)
	if _, err := New(t.Context(), o, &r.out); !errors.Is(err, ErrPath) {
		t.Errorf("no error of a path without arrivals: %v", err)
	}
	for name, change := range map[string]func(o *Options){
		"size": func(o *Options) { o.Sizes = []int{65} }, "large": func(o *Options) { o.Sizes = []int{1515} },
		"long": func(o *Options) { o.Duration = 2 * time.Hour }, "loss": func(o *Options) { o.Loss = 1 }, "repeat": func(o *Options) { o.Repeat = 0 },
	} {
		o := r.options()
		change(&o)
		if _, err := New(t.Context(), o, &r.out); !errors.Is(err, ErrOptions) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestUnfinishedSearch: an interrupted search says what it has found.
func TestUnfinishedSearch(t *testing.T) {
	for _, row := range []struct {
		found search.Result
		want  string
	}{
		{search.Result{}, ""},
		{search.Result{Trials: 1}, ""},
		{search.Result{Trials: 1, Above: 1000}, "64 bytes: the search was interrupted after 1 trial: the result is below 1000 frames/s, which did not pass"},
		{search.Result{Trials: 3, Above: 1000, Passed: 500}, "64 bytes: the search was interrupted after 3 trials: 500 frames/s passed, 1000 frames/s did not"},
		{search.Result{Trials: 1, Passed: 1000}, "64 bytes: the search was interrupted after 1 trial: 1000 frames/s passed"},
	} {
		tester := &Tester{}
		tester.unfinished(64, row.found, frameRate)
		if got := strings.Join(tester.remarks, "; "); got != row.want {
			t.Errorf("%+v: %q, want %q", row.found, got, row.want)
		}
	}
}
