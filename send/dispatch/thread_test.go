package dispatch

import (
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// TestLeaveProcessor: a thread may afterwards run on the same processors as before, and one
// that has a single processor stays there.
func TestLeaveProcessor(t *testing.T) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked: the thread ends, and with it its affinity
		var before, after unix.CPUSet
		if err := unix.SchedGetaffinity(0, &before); err != nil {
			t.Error(err)
			return
		}
		if left := leaveProcessor(); left != (before.Count() > 1) {
			t.Errorf("left %v, of %d processors", left, before.Count())
		}
		if err := unix.SchedGetaffinity(0, &after); err != nil || after != before {
			t.Errorf("processors %v, then %v, %v", before, after, err)
		}
		var first unix.CPUSet
		for cpu := 0; first.Count() == 0; cpu++ {
			if before.IsSet(cpu) {
				first.Set(cpu)
			}
		}
		if err := unix.SchedSetaffinity(0, &first); err != nil {
			t.Error(err)
		}
		if leaveProcessor() {
			t.Error("left the only processor")
		}
	}()
	<-done
}
