package program

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"pillion.dev/internal/test/hang"
)

func start(t *testing.T, ready, script string, change ...func(*Options)) *Program {
	t.Helper()
	o := Options{Command: exec.Command("sh", "-c", script), Name: "it", Ready: ready}
	for _, f := range change {
		f(&o)
	}
	p, err := Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill) // a shell may lose an interrupt just before it executes its last command
	return p
}

func TestReady(t *testing.T) {
	for name, c := range map[string]struct{ script, want string }{
		"on standard output": {"echo it works; sleep 60", ""},
		"on standard error":  {"echo it works >&2; sleep 60", ""},
		"in parts":           {"printf 'it wo'; sleep 0.05; printf rks; sleep 60", ""},
		"ended":              {"echo no such thing >&2; exit 3", "start it: ended before it was ready: exit status 3: no such thing"},
		"ended well":         {"true", "start it: ended before it was ready: exit status 0"},
	} {
		t.Run(name, func(t *testing.T) {
			err := start(t, "it works", c.script).Ready(t.Context())
			if c.want == "" && err != nil || c.want != "" && (err == nil || err.Error() != c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := start(t, "it works", "sleep 60").Ready(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("after an interrupt: %v", err)
	}
}

// A program gets an interrupt, prints its last words, and nothing of it is left.
func TestStop(t *testing.T) {
	const script = `trap 'echo "{\"marked\": 7}"; exit' INT; echo works; while :; do sleep 0.01; done`
	const byInput = `echo works; cat; echo '{"marked": 7}'`
	for name, p := range map[string]*Program{
		"signal": start(t, "works", script),
		"input":  start(t, "works", byInput, func(o *Options) { o.ByInput = true }),
	} {
		if err := p.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		if p.HasEnded() {
			t.Errorf("%s: it has ended", name)
		}
		if err := p.Stop(); err != nil || !p.HasEnded() || p.Output.LastObject()["marked"] != 7.0 {
			t.Errorf("%s: %v, output %q", name, err, p.Output.Bytes())
		}
		if err := p.Stop(); err != nil {
			t.Errorf("%s: a second time: %v", name, err)
		}
	}
}

func TestWait(t *testing.T) {
	p := start(t, "", "echo 5; echo why >&2; exit 4")
	if err := p.Wait(t.Context()); err == nil || p.Failure().Error() != "exit status 4: why" || string(p.Output.Bytes()) != "5\n" {
		t.Errorf("got %v, failure %v, output %q", err, p.Failure(), p.Output.Bytes())
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	reason := errors.New("it is late")
	cancel(reason)
	begun := time.Now()
	if err := start(t, "", "trap exit INT; while :; do sleep 0.01; done").Wait(ctx); !errors.Is(err, reason) || time.Since(begun) > hang.Limit {
		t.Errorf("after an interrupt: %v", err)
	}
	// What it leaves in the background ends with it.
	left := start(t, "", "sleep 1000 >/dev/null 2>&1 & echo $!")
	if err := left.Wait(t.Context()); err != nil {
		t.Error(err)
	}
	pid, err := strconv.Atoi(left.Output.Tail())
	if err != nil {
		t.Fatal(err)
	}
	for runs(pid) {
		if time.Since(begun) > hang.Limit {
			t.Fatal("a background command goes on")
		}
		time.Sleep(time.Millisecond)
	}
}

// runs reports whether a process is there and no zombie.
func runs(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(text), ") Z ")
}

func TestProcessorTime(t *testing.T) {
	p := start(t, "works", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; echo works; sleep 60")
	if err := p.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	running := p.ProcessorTime()
	p.kill()
	<-p.Ended()
	if ended := p.ProcessorTime(); running <= 0 || ended < running/2 {
		t.Errorf("%v while it ran, %v in all", running, ended)
	}
}

func TestStartFails(t *testing.T) {
	if _, err := Start(Options{Command: exec.Command("/no/such/program"), Name: "it"}); err == nil || !strings.HasPrefix(err.Error(), "start it: ") {
		t.Errorf("got %v", err)
	}
}

// TestLostInterrupt: a program that did not get the interrupt is terminated.
func TestLostInterrupt(t *testing.T) {
	t.Parallel()
	p := start(t, "works", "trap '' INT; echo works; while :; do sleep 0.01; done")
	if err := p.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := p.Stop(); err != nil || p.Failure().Error() != "signal: terminated" {
		t.Errorf("got %v, failure %v", err, p.Failure())
	}
}
