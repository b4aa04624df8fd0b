package hook

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

func TestMissingCapabilities(t *testing.T) {
	bits := func(capabilities ...int) (held uint64) {
		for _, c := range capabilities {
			held |= 1 << c
		}
		return held
	}
	for _, row := range []struct {
		name string
		held uint64
		want []string
	}{
		{"nothing held", 0, []string{"CAP_BPF", "CAP_NET_ADMIN", "CAP_PERFMON"}},
		{"all three", bits(unix.CAP_BPF, unix.CAP_NET_ADMIN, unix.CAP_PERFMON), nil},
		{"of a kernel before them", bits(unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN), nil},
		{"without the network", bits(unix.CAP_SYS_ADMIN), []string{"CAP_NET_ADMIN"}},
		{"without tracing", bits(unix.CAP_BPF, unix.CAP_NET_ADMIN), []string{"CAP_PERFMON"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			if got := Lacking(row.held); !slices.Equal(got, row.want) {
				t.Errorf("got %v, want %v", got, row.want)
			}
		})
	}
}

// A kernel before 6.6 calls tcx invalid; then clsact is to be used.
func TestWithoutTCX(t *testing.T) {
	for _, row := range []struct {
		name string
		err  error
		want bool
	}{
		{"kernel does not know tcx", fmt.Errorf("query programs: %w", unix.EINVAL), true},
		{"not permitted", fmt.Errorf("query programs: %w", unix.EPERM), false},
		{"known", nil, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			if got := errors.Is(withoutTCX(row.err), ebpf.ErrNotSupported); got != row.want {
				t.Errorf("taken as not supported: %t, want %t", got, row.want)
			}
		})
	}
}
