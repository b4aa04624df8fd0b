//go:build long

// Package machine runs tests of the probes on other kernels than this machine's, and the
// agent on another processor: it boots Debian's 6.1 and 6.12 for amd64 and 6.12 for arm64 in
// QEMU, without hardware's help, from a disk in memory that holds the test binaries, the
// programs that they call, and little else.
//
// It proves that programs load, attach and count there. It proves nothing about time: an
// emulated processor is slow and irregular. It consists of tests only.
package machine

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pillion.dev/internal/test/buildtag"
)

func TestMain(m *testing.M) {
	if os.Getpid() == 1 && os.Getenv(guestVariable) != "" {
		guest()
		return
	}
	os.Exit(m.Run())
}

// guestVariable tells this binary that it is the guest's first program; the kernel makes
// it of its command line.
const guestVariable = "PILLION_GUEST"

func TestLongDebianKernel(t *testing.T) {
	for _, p := range []platform{oldest, amd64} {
		t.Run(p.kernel, func(t *testing.T) {
			if runtime.GOARCH != "amd64" {
				t.Skipf("the guest runs this machine's programs, for %s, but its kernel is for amd64", runtime.GOARCH)
			}
			t.Parallel() // each guest takes one core
			p.test(t)
		})
	}
}

// test boots the platform and compares the guest's report with what its suites have to report.
func (p platform) test(t *testing.T) {
	if _, err := exec.LookPath(p.emulator); err != nil {
		lack(t, p.emulator, ".ci/install test")
	}
	k := unpackKernel(t, p.kernel, p.architecture)
	initial := filepath.Join(t.TempDir(), "initial")
	if err := p.fill(t, k).write(initial); err != nil {
		t.Fatalf("write the guest's disk: %v", err)
	}
	r := p.boot(t, k.image, initial)
	if !strings.HasPrefix(r.kernel, p.kernel+".") || !strings.HasSuffix(r.kernel, "-"+p.architecture) {
		t.Errorf("the guest's kernel is %q, want %s for %s", r.kernel, p.kernel, p.architecture)
	}
	t.Logf("kernel %s", r.kernel)
	for _, s := range p.suites {
		t.Run(s.Package, func(t *testing.T) {
			if cause := r.failed[s.Package]; cause != "" {
				t.Error(cause)
			}
			for _, test := range s.Tests {
				if verdict := r.verdicts[s.Package+" "+test]; verdict != "PASS" {
					t.Errorf("%s: %q, want PASS", test, verdict)
				}
			}
		})
	}
}

// lack skips the test, or fails it in CI, which has to have everything.
func lack(t *testing.T, what, bringer string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("needs %s, and CI must have it: '%s' brings it", what, bringer)
	}
	t.Skipf("needs %s: '%s' brings it", what, bringer)
}

// fill adds everything that the guest requires.
func (p platform) fill(t *testing.T, k kernel) disk {
	t.Helper()
	d := disk{}
	built := t.TempDir()
	packages := []string{"pillion.dev/lab/machine"}
	for _, s := range p.suites {
		packages = append(packages, "pillion.dev/"+s.Package)
	}
	build := exec.Command("go", append([]string{"test", "-c", "-trimpath", buildtag.With("long"), "-ldflags=-s -w", "-o", built + "/"}, packages...)...)
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOARCH="+p.architecture)
	if said, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build tests: %v\n%s", err, said)
	}
	d.copy(t, filepath.Join(built, "machine.test"), "/init")
	for _, s := range p.suites {
		d.copy(t, filepath.Join(built, filepath.Base(s.Package)+".test"), s.folder()+"/run")
	}
	// The source's tests load it besides their own.
	d.copy(t, "../../probe/destination/destination_bpfel.o", "/pillion/probe/destination/destination_bpfel.o")
	root := "/"
	if len(p.packages) > 0 {
		root = t.TempDir()
	}
	for _, name := range p.packages {
		unpack(t, root, name, p.architecture)
	}
	for _, name := range p.programs {
		d.program(t, root, name)
	}
	if p.agent {
		p.build(t, d)
	}
	for i, m := range k.choose(t, p.modules...) {
		d.put(fmt.Sprintf("%s/%02d-%s", moduleFolder, i, m.name), 0o644, m.code)
	}
	text, err := json.Marshal(p.suites)
	if err != nil {
		t.Fatal(err)
	}
	d.put(suiteFile, 0o644, text)
	return d
}

// build builds Pillion's programs for the architecture as a release does, and adds them.
func (p platform) build(t *testing.T, d disk) {
	t.Helper()
	out := t.TempDir()
	build := exec.Command("../../.ci/build-all", p.architecture)
	build.Env = append(os.Environ(), "OUT="+out)
	if said, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build programs: %v\n%s", err, said)
	}
	for _, name := range []string{"pillion", "pillion-agent"} {
		d.copy(t, filepath.Join(out, "linux-"+p.architecture, name), "/usr/sbin/"+name)
	}
}

// boot runs the machine until it ends and returns its report.
func (p platform) boot(t *testing.T, image, initial string) *report {
	t.Helper()
	// The emulator is killed when the thread that starts it ends, however this process ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	// One thread for both processors: with two, the emulator sometimes executes the
	// breakpoint with which the kernel patches a tracepoint after its removal.
	c := exec.CommandContext(ctx, p.emulator, append(p.options,
		"-accel", "tcg,thread=single", "-smp", "2", "-m", "1G",
		"-nodefaults", "-no-user-config", "-no-reboot", "-display", "none", "-monitor", "none", "-serial", "stdio",
		"-kernel", image, "-initrd", initial,
		"-append", "console="+p.console+" loglevel=1 panic=-1 oops=panic reboot=t mitigations=off "+guestVariable+"=1")...)
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: unix.SIGKILL}
	c.Stderr = os.Stderr
	output, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	limit := &unix.Rlimit{Cur: uint64(processorTime.Seconds()), Max: unix.RLIM_INFINITY}
	if err := unix.Prlimit(c.Process.Pid, unix.RLIMIT_CPU, limit, nil); err != nil {
		t.Errorf("limit processor time of %s: %v", p.emulator, err)
	}
	r := &report{verdicts: map[string]string{}, failed: map[string]string{}}
	for lines := bufio.NewScanner(output); lines.Scan(); {
		line := strings.TrimRight(lines.Text(), "\r")
		if !strings.HasPrefix(line, "=== ") && !strings.HasPrefix(line, "    --- PASS") {
			t.Logf("%5.1f %s", time.Since(began).Seconds(), line)
		}
		r.read(line)
	}
	err = c.Wait()
	t.Logf("%.1f seconds, %.1f of processors", time.Since(began).Seconds(), (c.ProcessState.UserTime() + c.ProcessState.SystemTime()).Seconds())
	switch {
	case ctx.Err() != nil:
		t.Errorf("the machine was not done after %v", patience)
	case err != nil:
		t.Errorf("run %s: %v", p.emulator, err)
	case !r.done:
		t.Error("the guest did not finish")
	}
	return r
}
