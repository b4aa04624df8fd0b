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

// feature is something that the programs on the packet path ask of a kernel.
type feature struct {
	name  string
	since string // first version that has it
	// instead says what is used without it; empty where it is needed.
	instead string
	probe   func() error
}

var wanted = []feature{
	{"BPF ring buffer", "5.8", "", func() error { return features.HaveMapType(ebpf.RingBuf) }},
	{"BPF system-call programs", "5.14", "", func() error { return features.HaveProgramType(ebpf.Syscall) }},
	{"bpf_loop", "5.17", "", func() error { return features.HaveProgramHelper(ebpf.SchedCLS, asm.FnLoop) }},
	{"XDP byte access", "5.18", "", func() error { return features.HaveProgramHelper(ebpf.XDP, asm.FnXdpLoadBytes) }},
	{"bpf_ktime_get_tai_ns", "6.1", "", func() error { return features.HaveProgramHelper(ebpf.SchedCLS, asm.FnKtimeGetTaiNs) }},
	{"BPF netfilter links", "6.4", "routers cannot be profiled, all else works", func() error { return features.HaveProgramType(ebpf.Netfilter) }},
	{"tcx", "6.6", "clsact filters are used instead", hook.HaveTCX},
}

// checkKernel looks at the kernel and at what of it the programs need.
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
	check := session.Check{Name: "kernel " + f.name, Level: OK, Found: "there (Linux " + f.since + ")"}
	switch {
	case err == nil:
	case errors.Is(err, ebpf.ErrNotSupported) && f.instead != "":
		check.Found = fmt.Sprintf("missing (Linux %s): %s", f.since, f.instead)
	case errors.Is(err, ebpf.ErrNotSupported):
		check.Level, check.Found = Error, fmt.Sprintf("missing (Linux %s)", f.since)
		check.Advice = "install a newer kernel, 6.1 or later; uname -r shows which one runs"
	default:
		return unknown(check.Name, err)
	}
	return check
}

// readJIT loads a program that does nothing and sees whether it was compiled. The
// switch in /proc is not in every network namespace, so it only stands in.
func readJIT() (bool, error) {
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type: ebpf.SocketFilter, License: "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()},
	})
	if err == nil {
		defer program.Close()
		var info *ebpf.ProgramInfo
		if info, err = program.Info(); err == nil {
			var size uint32
			size, err = info.JitedSize()
			if err == nil {
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
			Name: name, Level: Warning, Found: "off: each marked packet costs several times as much",
			Advice: "sysctl -w net.core.bpf_jit_enable=1",
		}
	}
	return ok(name, "on")
}
