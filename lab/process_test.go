package lab

import (
	"os/exec"
	"runtime"
	"testing"
)

// A program may exit before its process is identified: it counts as started, and as not
// running.
func TestProgramThatExitsImmediately(t *testing.T) {
	b := &builder{state: state(t.TempDir())}
	for range 50 {
		command := exec.Command("/bin/true")
		if err := b.startRecorded("", "program", command); err != nil {
			t.Fatal(err)
		}
		p, _ := b.state.process("program")
		for p.alive() {
			runtime.Gosched()
		}
		if p.Pid != command.Process.Pid {
			t.Fatalf("recorded process %+v, started %d", p, command.Process.Pid)
		}
	}
}
