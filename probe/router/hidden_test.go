package router

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// There are kernels, those of some sandboxes, that run no tracing program while process 1
// is current: what the network's softirq does on top of it goes unseen. A packet of which
// that hides the arrival is first seen by IP, and not at all if it never meets IP; one of
// which it hides the departure is counted as lost or in flight. Nothing else may be missed.

// timeslices is how often process 1 was given a processor so far.
func timeslices(t testing.TB) (sum uint64) {
	t.Helper()
	tasks, err := filepath.Glob("/proc/1/task/*/schedstat")
	if err != nil || len(tasks) == 0 {
		t.Fatalf("read timeslices of process 1: %v", err)
	}
	for _, task := range tasks {
		file, err := os.Open(task)
		if err != nil {
			continue // the thread has ended
		}
		var ran, waited, slices uint64
		_, err = fmt.Fscan(bufio.NewReader(file), &ran, &waited, &slices)
		file.Close()
		if err != nil {
			t.Fatalf("read %s: %v", task, err)
		}
		sum += slices + ran // either tells that it had one
	}
	return sum
}

// hidden is of how many of the packets that were sent the end is not known, because some
// hook did not see them. It fails the test if hooks missed any although process 1 did not
// run since the profile was opened, or more than a tenth: then the test would show nothing.
func (r *rig) hidden(a Account, sent uint64) uint64 {
	r.t.Helper()
	if a.Seen > sent {
		r.t.Fatalf("%d packets seen of %d", a.Seen, sent)
	}
	n := sent - a.Seen + a.Lost + a.InFlight
	r.mayHide(n + a.NoArrival)
	if n+a.NoArrival > sent/10 {
		r.t.Errorf("hooks did not see %d of %d packets", n, sent)
	}
	return n
}

func (r *rig) mayHide(n uint64) {
	r.t.Helper()
	if n == 0 {
		return
	}
	r.t.Logf("hooks did not see %d packets", n)
	if timeslices(r.t) == r.opened {
		r.t.Errorf("hooks did not see %d packets, and process 1 did not run", n)
	}
}

// closes fails the test if the account does not close, or if anything was lost that
// process 1 cannot have hidden.
func (r *rig) closes(a Account) {
	r.t.Helper()
	if sum := a.Forwarded + a.Dropped + a.Local + a.Merged + a.InFlight + a.Lost; a.Unexplained != 0 || sum != a.Seen {
		r.t.Errorf("%d seen, %d explained, %d unexplained", a.Seen, sum, a.Unexplained)
	}
	if a.LostReasons["full"] != 0 || a.LostReasons["unseen"]+a.LostReasons["reused"] != a.Lost {
		r.t.Errorf("lost %d: %v", a.Lost, a.LostReasons)
	}
	r.mayHide(a.Lost + a.InFlight)
	var reasons uint64
	for _, n := range a.DropReasons {
		reasons += n
	}
	if reasons != a.Dropped {
		r.t.Errorf("%d dropped, %d of them with a reason", a.Dropped, reasons)
	}
}
