package hook

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// TestLoadErrors: a refusal of the verifier is not a lack of privileges, and an old kernel is
// named by the newest feature that it lacks.
func TestLoadErrors(t *testing.T) {
	verifier := func(errno error, log ...string) error {
		return fmt.Errorf("field SourceGeneral: program source_general: load program: %w", &ebpf.VerifierError{Cause: errno, Log: log})
	}
	since := func(version string, found error) Feature {
		return Feature{"feature of " + version, version, func() error { return found }}
	}
	missing := ebpf.ErrNotSupported
	for _, row := range []struct {
		name     string
		err      error
		required []Feature
		is       error
		says     string
	}{
		{"refused", verifier(unix.EACCES, "0: (b7) r0 = 0", "invalid zero-sized read", "verification time 9 usec", "stack depth 8", "processed 9 insns (limit 1000000)"),
			nil, ErrRefused, "program source_general: refused by the kernel's verifier: invalid zero-sized read"},
		{"refused with EPERM", verifier(unix.EPERM, "combined stack size of 5 calls is 544. Too large"), []Feature{since("6.1", nil)}, ErrRefused, "544. Too large"},
		{"statistics only", verifier(unix.EACCES, "processed 9 insns (limit 1000000)"), nil, ErrRefused, "verifier: processed 9 insns"},
		{"old kernel with a log", verifier(unix.EINVAL, "invalid func unknown#208"), []Feature{since("5.17", missing), since("6.1", missing)}, ErrOldKernel, "feature of 6.1 needs Linux 6.1"},
		{"old kernel without room", fmt.Errorf("map flows: map create: %w (MEMLOCK may be too low)", unix.EPERM), []Feature{since("5.8", nil), since("5.14", missing)},
			ErrOldKernel, "feature of 5.14 needs Linux 5.14"},
		{"unknown feature", fmt.Errorf("program x: %w", missing), nil, ErrOldKernel, "6.1 or newer"},
	} {
		t.Run(row.name, func(t *testing.T) {
			got := explain(row.err, row.required)
			if !errors.Is(got, row.is) || !strings.Contains(got.Error(), row.says) {
				t.Errorf("%v, want %q in it", got, row.says)
			}
			if errors.Is(got, fs.ErrPermission) {
				t.Errorf("%v: a lack of privileges", got)
			}
		})
	}
	for _, err := range []error{nil, fmt.Errorf("map flows: %w", unix.EPERM), verifier(unix.EPERM)} {
		if got := explain(err, []Feature{since("6.1", unix.EPERM)}); got != err {
			t.Errorf("%v became %v", err, got)
		}
	}
}
