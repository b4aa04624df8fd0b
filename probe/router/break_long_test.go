//go:build long

package router

import (
	"testing"
	"time"
)

func TestLongBreaksOfAHog(t *testing.T) {
	breaksOfAHog(t).agrees(t, "scheduled", hogName)
}

func TestLongBreaksOfASoftirq(t *testing.T) {
	breaksOfASoftirq(t).agrees(t, "softirq", "")
}

// agrees fails the test unless there were breaks of that cause, no more than there were
// times in which the processor was busy so, and the time that breaks give it is no less
// than the log's, but for 100 us, and no more than the break. The log is a lower bound: it
// lacks what a hypervisor or an interrupt took, which the kernel counts as the task's.
func (f flow) agrees(t *testing.T, cause, task string) {
	t.Helper()
	// At both ends it is unknown whether a packet waited.
	first, last := f.sent[0]+uint64(2*time.Millisecond), f.sent[len(f.sent)-1]-uint64(2*time.Millisecond)
	busy := joined(f.busy, 15*time.Microsecond, 0) // interrupts are part of it
	hidden := f.snapshot.Account.Lost + f.snapshot.Account.InFlight
	var right, wrong int
	var reported, truth, inside uint64
	for _, b := range f.breaks {
		took := within(b.MonoNs, b.MonoNs+b.LastNs, busy)
		if took < b.LastNs*6/10 {
			continue
		}
		noted := map[string]uint64{"scheduled": b.TaskNs, "softirq": b.SoftirqNs}[cause]
		enough := noted+uint64(100*time.Microsecond) > took && noted <= b.LastNs
		if b.Cause == cause && (task == "" || b.Task == task) && b.CPU == 1 && b.Depth > 0 && enough {
			right++
		} else {
			wrong++
			t.Logf("%+v, but %d ns were %s", b, took, cause)
		}
		if b.MonoNs > first && b.MonoNs+b.LastNs < last {
			inside++
			reported += b.LastNs
			truth += took
		}
	}
	var spells uint64
	for _, s := range joined(f.busy, 30*time.Microsecond, DefaultBreak+20*time.Microsecond) {
		if s.begin < first || s.end > last {
			continue
		}
		spells++
	}
	t.Logf("%d breaks, %v; by %s %d right, %d wrong; %d spells; %d breaks of %v, %v by its own log",
		len(f.breaks), f.snapshot.Breaks.Causes, cause, right, wrong, spells, inside, time.Duration(reported), time.Duration(truth))
	if right < 3 && hidden == 0 || wrong*10 > right {
		t.Errorf("%d breaks have the right cause, %d a wrong one; the first are %+v", right, wrong, f.breaks[:min(3, len(f.breaks))])
	}
	if inside > spells*5/4+2 { // reported asserts that none is missing
		t.Errorf("%d spells, %d breaks", spells, inside)
	}
	if truth*4 < reported*3 {
		t.Errorf("breaks last %v, %v by the log", time.Duration(reported), time.Duration(truth))
	}
}
