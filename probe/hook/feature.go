package hook

import (
	"errors"
	"fmt"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/features"
)

// ErrRefused means that the kernel's verifier does not accept a program. Privileges do not change that.
var ErrRefused = errors.New("refused by the kernel's verifier")

// A Feature is a part of the kernel that programs use.
type Feature struct {
	Name  string
	Since string // first version of Linux that has it
	// Probe asks the kernel for it; without it the error is ebpf.ErrNotSupported.
	Probe func() error
}

// Required are the features without which neither a source nor a destination loads, by version.
var Required = []Feature{
	{"BPF ring buffer", "5.8", func() error { return features.HaveMapType(ebpf.RingBuf) }},
	{"BPF system-call programs", "5.14", func() error { return features.HaveProgramType(ebpf.Syscall) }},
	{"bpf_loop", "5.17", func() error { return features.HaveProgramHelper(ebpf.SchedCLS, asm.FnLoop) }},
	{"XDP byte access", "5.18", func() error { return features.HaveProgramHelper(ebpf.XDP, asm.FnXdpLoadBytes) }},
	{"bpf_ktime_get_tai_ns", "6.1", func() error { return features.HaveProgramHelper(ebpf.SchedCLS, asm.FnKtimeGetTaiNs) }},
}

// Explain returns the cause of an error of loading programs: ErrOldKernel with the newest feature that
// is missing, or ErrRefused with the verifier's last line. Neither wraps the kernel's EPERM or EACCES.
func Explain(err error) error { return explain(err, Required) }

// explain is Explain for a list of features, by version.
func explain(err error, required []Feature) error {
	if err == nil {
		return nil
	}
	for i := len(required) - 1; i >= 0; i-- {
		if f := required[i]; errors.Is(f.Probe(), ebpf.ErrNotSupported) {
			return fmt.Errorf("%w: %s needs Linux %s: %v", ErrOldKernel, f.Name, f.Since, err)
		}
	}
	var verifier *ebpf.VerifierError
	if errors.As(err, &verifier) && len(verifier.Log) > 0 {
		program, _, _ := strings.Cut(err.Error(), ": load program")
		program = program[max(0, strings.LastIndex(program, "program ")):]
		return fmt.Errorf("%s: %w: %s", program, ErrRefused, lastLine(verifier.Log))
	}
	if errors.Is(err, ebpf.ErrNotSupported) {
		return fmt.Errorf("%w: 6.1 or newer is needed: %w", ErrOldKernel, err)
	}
	return err
}

// lastLine returns the line with the verifier's reason: the last one before its statistics.
func lastLine(log []string) string {
	for i := len(log) - 1; i >= 0; i-- {
		line := strings.TrimSpace(log[i])
		if line != "" && !strings.HasPrefix(line, "processed ") && !strings.HasPrefix(line, "verification time ") && !strings.HasPrefix(line, "stack depth ") {
			return line
		}
	}
	return log[len(log)-1]
}
