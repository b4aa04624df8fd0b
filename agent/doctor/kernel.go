package doctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/features"

	"pillion.dev/agent/host"
	"pillion.dev/probe/hook"
	"pillion.dev/session"
)

// feature is a kernel feature that the BPF programs use.
type feature struct {
	name  string
	since string // first version that has it
	// fallback says what happens without it; empty if it is required.
	fallback string
	probe    func() error
}

var wanted = []feature{
	{"BPF ring buffer", "5.8", "", func() error { return features.HaveMapType(ebpf.RingBuf) }},
	{"BPF system-call programs", "5.14", "", func() error { return features.HaveProgramType(ebpf.Syscall) }},
	{"bpf_loop", "5.17", "", func() error { return features.HaveProgramHelper(ebpf.SchedCLS, asm.FnLoop) }},
	{"XDP byte access", "5.18", "", func() error { return features.HaveProgramHelper(ebpf.XDP, asm.FnXdpLoadBytes) }},
	{"bpf_ktime_get_tai_ns", "6.1", "", func() error { return features.HaveProgramHelper(ebpf.SchedCLS, asm.FnKtimeGetTaiNs) }},
	{"BPF netfilter links", "6.4", "router profiles are not available; everything else works", func() error { return features.HaveProgramType(ebpf.Netfilter) }},
	{"BPF TCP header options", "5.10", withoutOptions, func() error { return features.HaveProgramHelper(ebpf.SockOps, asm.FnReserveHdrOpt) }},
	{"cgroup v2", "4.5", withoutOptions, hook.HaveCgroup},
	{"BPF callbacks for existing TCP connections", "6.12", "the encoding tcp-option marks new connections only", haveTCPCallbacks},
	{"tcx", "6.6", "clsact filters are used instead", hook.HaveTCX},
}

const withoutOptions = "TCP packets get the next encoding after tcp-option"

// haveTCPCallbacks goes by the version: only a connection can tell.
func haveTCPCallbacks() error {
	release, err := host.Kernel()
	if err != nil {
		return err
	}
	var major, minor int
	if _, err := fmt.Sscanf(release, "%d.%d", &major, &minor); err != nil {
		return fmt.Errorf("read kernel release %q: %w", release, err)
	}
	if major < 6 || major == 6 && minor < 12 {
		return ebpf.ErrNotSupported
	}
	return nil
}

// checkKernel checks the kernel version and the features that the programs use.
func checkKernel(context.Context) []session.Check {
	var checks []session.Check
	release, err := host.Kernel()
	if err != nil {
		checks = append(checks, unknown("kernel", err))
	} else {
		checks = append(checks, ok("kernel", "Linux %s", release))
	}
	for _, f := range wanted {
		checks = append(checks, f.judge(f.probe()))
	}
	return append(checks, judgeJIT(readJIT()))
}

func (f feature) judge(err error) session.Check {
	check := session.Check{Name: "kernel " + f.name, Level: OK, Found: "available (since Linux " + f.since + ")"}
	switch {
	case err == nil:
	case errors.Is(err, ebpf.ErrNotSupported) && f.fallback != "":
		check.Found = fmt.Sprintf("not available (since Linux %s): %s", f.since, f.fallback)
	case errors.Is(err, ebpf.ErrNotSupported):
		check.Level, check.Found = Error, fmt.Sprintf("not available (since Linux %s)", f.since)
		check.Advice = "install Linux 6.1 or later; uname -r shows the running kernel"
	default:
		return unknown(check.Name, err)
	}
	return check
}

// readJIT loads an empty program and reports whether it was compiled. The sysctl is
// only the fallback: not every network namespace has it.
func readJIT() (bool, error) {
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type: ebpf.SocketFilter, License: "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()},
	})
	if err == nil {
		defer program.Close()
		var info *ebpf.ProgramInfo
		if info, err = program.Info(); err == nil {
			size, failed := info.JitedSize()
			if err = failed; err == nil {
				return size > 0, nil
			}
		}
	}
	text, fileErr := os.ReadFile("/proc/sys/net/core/bpf_jit_enable")
	if fileErr != nil {
		return false, errors.Join(err, fileErr)
	}
	return strings.TrimSpace(string(text)) != "0", nil
}

func judgeJIT(on bool, err error) session.Check {
	const name = "BPF JIT"
	if err != nil {
		return unknown(name, err)
	}
	if !on {
		return session.Check{
			Name: name, Level: Warning, Found: "disabled: BPF programs are interpreted, which multiplies the cost per packet",
			Advice: "sysctl -w net.core.bpf_jit_enable=1",
		}
	}
	return ok(name, "enabled")
}
