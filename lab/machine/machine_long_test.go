//go:build long

// Package machine runs tests of the probes on another kernel than this machine's: it
// boots Debian's 6.12 in QEMU, without hardware's help, from a disk in memory that holds
// the test binaries and little else.
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
)

const emulator = "qemu-system-x86_64"

// The emulated machine may use so much processor time, three times what it takes on a fast
// host, and run for so long if the host is busy with other work.
const (
	processorTime = 12 * time.Minute
	patience      = 18 * time.Minute
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

// suites cover each hook.
var suites = []suite{
	{
		Package: "probe/router",
		Tests: []string{
			"TestForwardedPacketsAreCountedExactly/ipv4",
			"TestForwardedPacketsAreCountedExactly/ipv6",
			"TestRecordsAddUpToTheHistograms/no_queue",
			"TestAccountOfStreamsBalances/gro_and_cut",
			"TestAccountOfStreamsBalances/gro",
			"TestLocalDeliveryIsNotForwarding/ipv6",
			"TestFragmentsAreCountedAsTheirPacket",
		},
	},
	{
		Package: "probe/source",
		Tests: []string{
			"TestGoldenOriginalsAreMarked/udp_delay,loss",
			"TestGoldenOriginalsAreMarked/udp-option_delay,loss",
			"TestTCPOptionIsFilled/delay,loss",
			"TestConnectionsGetRoom/ipv4",
			"TestConnectionsGetRoom/ipv6",
			"TestMSSIsClamped",
			"TestValidationComesBeforeMarks/IPv6",
			"TestValidationComesBeforeMarks/IPv4",
			"TestPathProbesAreMarked/udp-option",
			"TestTransparencyWithoutLinkHeader/udp",
			"TestIngressOption/native_tagged=true",
			"TestIngressOption/udp_tagged=true",
			"TestIngressInStandards/ioam-trace_delay,loss_tagged=true",
		},
	},
	{
		Package: "probe/device",
		Tests: []string{
			"TestModuleDevices/VLAN,_the_device_below",
			"TestModuleDevices/bond,_its_port",
			"TestModuleDevices/VRF,_sockets_outside_of_it,_the_device_in_the_VRF",
			"TestModuleDevices/netkit,_the_device",
		},
	},
	{
		Package: "probe/destination",
		Tests:   []string{"TestReplace", "TestHistogramInKernel", "TestPagesAreFreedWithTheirFlow", "TestFlowsByRule"},
	},
	{
		Package: "send",
		Tests: []string{
			"TestLaunchTime/fq",
			"TestLaunchTime/etf",
			"TestEveryPacketArrivesOnce/bpf/udp/ipv4",
			"TestEveryPacketArrivesOnce/xdp/udp/ipv6",
			"TestClockIsStepped/bpf",
			"TestClockIsStepped/packet-spin",
			"TestClockIsStepped/udp-sleep",
		},
	},
}

func TestLongDebianKernel(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skipf("the guest runs this machine's programs, for %s, but its kernel is for amd64", runtime.GOARCH)
	}
	if _, err := exec.LookPath(emulator); err != nil {
		lack(t, emulator, ".ci/install test")
	}
	k := unpack(t)
	initial := filepath.Join(t.TempDir(), "initial")
	if err := fill(t, k).write(initial); err != nil {
		t.Fatalf("write the guest's disk: %v", err)
	}
	r := boot(t, k.image, initial)
	if !strings.HasPrefix(r.kernel, "6.12.") {
		t.Errorf("the guest's kernel is %q, want 6.12", r.kernel)
	}
	t.Logf("kernel %s", r.kernel)
	for _, s := range suites {
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
func fill(t *testing.T, k kernel) disk {
	t.Helper()
	d := disk{}
	built := t.TempDir()
	packages := []string{"pillion.dev/lab/machine"}
	for _, s := range suites {
		packages = append(packages, "pillion.dev/"+s.Package)
	}
	build := exec.Command("go", append([]string{"test", "-c", "-tags=long", "-ldflags=-s -w", "-o", built + "/"}, packages...)...)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if said, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build tests: %v\n%s", err, said)
	}
	d.copy(t, filepath.Join(built, "machine.test"), "/init")
	for _, s := range suites {
		d.copy(t, filepath.Join(built, filepath.Base(s.Package)+".test"), s.folder()+"/run")
	}
	// The source's tests load it besides their own.
	d.copy(t, "../../probe/destination/destination_bpfel.o", "/pillion/probe/destination/destination_bpfel.o")
	for _, name := range []string{"ip", "tc", "ethtool", "sysctl"} {
		d.program(t, name)
	}
	for i, m := range k.choose(t, "veth", "tun", "dummy", "8021q", "bonding", "ipvlan", "geneve", "sit", "vrf", "sch_ingress", "sch_tbf", "sch_netem", "sch_fq", "sch_etf", "cls_bpf", "cls_u32", "act_mirred") {
		d.put(fmt.Sprintf("%s/%02d-%s", moduleFolder, i, m.name), 0o644, m.code)
	}
	text, err := json.Marshal(suites)
	if err != nil {
		t.Fatal(err)
	}
	d.put(suiteFile, 0o644, text)
	return d
}

// boot runs the machine until it ends and returns its report.
func boot(t *testing.T, image, initial string) *report {
	t.Helper()
	// The emulator is killed when the thread that starts it ends, however this process ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	// One thread for both processors: with two, the emulator sometimes executes the
	// breakpoint with which the kernel patches a tracepoint after its removal.
	c := exec.CommandContext(ctx, emulator,
		"-accel", "tcg,thread=single", "-cpu", "max", "-smp", "2", "-m", "1G",
		"-nodefaults", "-no-user-config", "-no-reboot", "-display", "none", "-monitor", "none", "-serial", "stdio",
		"-kernel", image, "-initrd", initial,
		"-append", "console=ttyS0 loglevel=1 panic=-1 oops=panic reboot=t mitigations=off "+guestVariable+"=1")
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
		t.Errorf("limit processor time of %s: %v", emulator, err)
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
		t.Errorf("run %s: %v", emulator, err)
	case !r.done:
		t.Error("the guest did not finish")
	}
	return r
}
