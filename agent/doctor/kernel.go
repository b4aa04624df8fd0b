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
	hook.Feature
	// fallback says what happens without an optional feature; empty if the feature is required.
	fallback string
}

// optional are the features without which the agent works with the fallback.
var optional = []feature{
	{hook.Feature{Name: "BPF netfilter links", Since: "6.4", Probe: func() error { return features.HaveProgramType(ebpf.Netfilter) }},
		"router profiles are not available; everything else works"},
	{hook.Feature{Name: "BPF TCP header options", Since: "5.10", Probe: func() error { return features.HaveProgramHelper(ebpf.SockOps, asm.FnReserveHdrOpt) }},
		withoutOptions},
	{hook.Feature{Name: "cgroup v2", Since: "4.5", Probe: hook.HaveCgroup}, withoutOptions},
	{hook.Feature{Name: "BPF callbacks for existing TCP connections", Since: "6.12", Probe: haveTCPCallbacks},
		"the encoding tcp-option marks new connections only"},
	{hook.Feature{Name: "tcx", Since: "6.6", Probe: hook.HaveTCX}, "clsact filters are used instead"},
}

const oldAdvice = "install Linux 6.1 or later; uname -r shows the running kernel"

const withoutOptions = "TCP packets get the next encoding after tcp-option"

// haveTCPCallbacks compares the kernel version: a probe of the feature itself would need a TCP connection.
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
	for _, f := range hook.Required {
		checks = append(checks, feature{Feature: f}.judge(f.Probe()))
	}
	for _, f := range optional {
		checks = append(checks, f.judge(f.Probe()))
	}
	return append(checks, judgeJIT(readJIT()))
}

func (f feature) judge(err error) session.Check {
	check := session.Check{Name: "kernel " + f.Name, Level: OK, Found: "available (since Linux " + f.Since + ")"}
	switch {
	case err == nil:
	case errors.Is(err, ebpf.ErrNotSupported) && f.fallback != "":
		check.Found = fmt.Sprintf("not available (since Linux %s): %s", f.Since, f.fallback)
	case errors.Is(err, ebpf.ErrNotSupported):
		check.Level, check.Found = Error, fmt.Sprintf("not available (since Linux %s)", f.Since)
		check.Advice = oldAdvice
	default:
		return unknown(check.Name, err)
	}
	return check
}

// Names of the checks that load the BPF programs of a source and of a destination.
const programSource, programDestination = "program source", "program destination"

func checkProgram(name string, try func() error) []session.Check {
	return []session.Check{judgeProgram(name, try())}
}

func judgeProgram(name string, err error) session.Check {
	switch {
	case err == nil:
		return ok(name, "loads")
	case errors.Is(err, hook.ErrOldKernel):
		return session.Check{Name: name, Level: Error, Found: err.Error(), Advice: oldAdvice}
	case errors.Is(err, hook.ErrRefused):
		return session.Check{Name: name, Level: Error, Found: err.Error(), Advice: "install another kernel, and report this line and the output of uname -r: Pillion is tested with Debian's Linux 6.1 and 6.12"}
	}
	return unknown(name, err)
}

// readJIT loads a minimal program and reports whether the kernel compiled it to machine code. The sysctl
// is only the fallback, because some network namespaces do not have it.
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
