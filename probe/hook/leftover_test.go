package hook

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"pillion.dev/internal/netns"
	"pillion.dev/internal/test/namespace"
)

// within runs a test in a network namespace of its own, on a kernel with tcx.
func within(t *testing.T, test func() error) {
	t.Helper()
	name := namespace.New(t)
	if err := HaveTCX(); err != nil {
		t.Skipf("needs tcx, Linux 6.6: %v", err)
	}
	if err := netns.Do(name, test); err != nil {
		t.Fatal(err)
	}
}

func attached(t *testing.T) (ids []ebpf.ProgramID) {
	t.Helper()
	result, err := link.QueryPrograms(link.QueryOptions{Target: loopback.Index, Attach: ebpf.AttachTCXIngress})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range result.Programs {
		ids = append(ids, p.ID)
	}
	return ids
}

func idOf(t *testing.T, program *ebpf.Program) ebpf.ProgramID {
	t.Helper()
	info, err := program.Info()
	if err != nil {
		t.Fatal(err)
	}
	id, _ := info.ID()
	return id
}

// fill attaches programs of one name until the hook takes no more.
func fill(t *testing.T, name string) (count int) {
	t.Helper()
	for {
		program := passProgram(t, name)
		err := link.RawAttachProgram(link.RawAttachProgramOptions{Target: loopback.Index, Program: program, Attach: ebpf.AttachTCXIngress, Anchor: link.Tail()})
		if err != nil {
			return count
		}
		count++
	}
}

// TestFullHook: the error says that the hook is full, and of which programs.
func TestFullHook(t *testing.T) {
	within(t, func() error {
		left, fresh := passProgram(t, "stranger"), passProgram(t, "test_tc")
		if err := link.RawAttachProgram(link.RawAttachProgramOptions{Target: loopback.Index, Program: left, Attach: ebpf.AttachTCXIngress}); err != nil {
			return err
		}
		n := fill(t, "other")
		_, err := Attach(fresh, loopback, Options{Point: Ingress, Stay: true})
		if want := fmt.Sprintf("the hook is full: it holds %d programs, the most that the kernel allows, among them %d of other, 1 of stranger", n+1, n); !errors.Is(err, ErrFull) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
		return nil
	})
}

// TestHookFullOfLeftovers: programs that killed processes left make room for the next one.
func TestHookFullOfLeftovers(t *testing.T) {
	within(t, func() error {
		fill(t, "test_tc")
		fresh := passProgram(t, "test_tc")
		a, err := Attach(fresh, loopback, Options{Point: Ingress, Stay: true})
		if err != nil {
			return err
		}
		if ids := attached(t); len(ids) != 1 || ids[0] != idOf(t, fresh) {
			t.Errorf("attached %v", ids)
		}
		return a.Close()
	})
}

// TestDetachByID: a program is taken off that cannot be opened, wherever it is in the chain, and no other.
func TestDetachByID(t *testing.T) {
	for at := range 3 {
		t.Run(fmt.Sprint(at), func(t *testing.T) {
			within(t, func() error {
				var want []ebpf.ProgramID
				var left ebpf.ProgramID
				for i := range 3 {
					program := passProgram(t, "test_tc")
					if i == 1 { // links are not in the way
						l, err := link.AttachTCX(link.TCXOptions{Interface: loopback.Index, Program: passProgram(t, "linked"), Attach: ebpf.AttachTCXIngress, Anchor: link.Tail()})
						if err != nil {
							return err
						}
						defer l.Close()
						want = append(want, attached(t)[i])
					}
					if err := link.RawAttachProgram(link.RawAttachProgramOptions{Target: loopback.Index, Program: program, Attach: ebpf.AttachTCXIngress, Anchor: link.Tail()}); err != nil {
						return err
					}
					if id := idOf(t, program); i == at {
						left = id
					} else {
						want = append(want, id)
					}
				}
				if err := detachByID(loopback, ebpf.AttachTCXIngress, left); err != nil {
					return err
				}
				if got := attached(t); fmt.Sprint(got) != fmt.Sprint(want) {
					t.Errorf("attached %v, want %v", got, want)
				}
				return detachByID(loopback, ebpf.AttachTCXIngress, left) // it is gone
			})
		})
	}
}

// TestNoteOfProgram: what a killed process left is known to the next one, until it is taken off.
func TestNoteOfProgram(t *testing.T) {
	within(t, func() error {
		owner, err := Own("test", loopback) // makes the folder
		if err != nil {
			return err
		}
		defer owner.Close()
		first, second := passProgram(t, "test_tc"), passProgram(t, "test_tc")
		a, err := Attach(first, loopback, Options{Point: Ingress, Stay: true})
		if err != nil {
			return err
		}
		if !noted("test_tc", loopback, idOf(t, first)) {
			t.Error("the first program is not noted")
		}
		b, err := Attach(second, loopback, Options{Point: Ingress, Stay: true})
		if err != nil {
			return err
		}
		if err := a.Close(); err != nil {
			return err
		}
		if !noted("test_tc", loopback, idOf(t, second)) {
			t.Error("the second program is not noted")
		}
		if err := b.Close(); err != nil {
			return err
		}
		path, err := place("test_tc", loopback)
		if err != nil {
			return err
		}
		if left, _ := filepath.Glob(path + "*"); len(left) > 0 {
			t.Errorf("left %v", left)
			os.Remove(left[0])
		}
		return nil
	})
}

// TestLeftoverWithoutSysAdmin: the shipped unit has no CAP_SYS_ADMIN, so that each agent that was killed left
// another program.
func TestLeftoverWithoutSysAdmin(t *testing.T) {
	within(t, func() error {
		owner, err := Own("test", loopback)
		if err != nil {
			return err
		}
		defer owner.Close()
		if err := link.RawAttachProgram(link.RawAttachProgramOptions{Target: loopback.Index, Program: passProgram(t, "stranger"), Attach: ebpf.AttachTCXIngress}); err != nil {
			return err
		}
		stranger := attached(t)[0]
		var last *Attachment
		var want ebpf.ProgramID
		for range 3 { // each but the last one is as if its process was killed
			fresh := passProgram(t, "test_tc")
			restore := withoutSysAdmin(t)
			last, err = Attach(fresh, loopback, Options{Point: Ingress, Stay: true})
			restore()
			if err != nil {
				return err
			}
			want = idOf(t, fresh)
		}
		if got := attached(t); len(got) != 2 || got[0] != want || got[1] != stranger {
			t.Errorf("attached %v, want %v", got, []ebpf.ProgramID{want, stranger})
		}
		return last.Close()
	})
}

// withoutSysAdmin takes CAP_SYS_ADMIN from the thread until restore is called.
func withoutSysAdmin(t *testing.T) (restore func()) {
	t.Helper()
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var held [2]unix.CapUserData
	if err := unix.Capget(&header, &held[0]); err != nil {
		t.Fatal(err)
	}
	fewer := held
	fewer[0].Effective &^= 1 << unix.CAP_SYS_ADMIN
	if err := unix.Capset(&header, &fewer[0]); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := unix.Capset(&header, &held[0]); err != nil {
			t.Error(err)
		}
	}
}
