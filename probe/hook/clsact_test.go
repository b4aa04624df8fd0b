package hook

import (
	"errors"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"pillion.dev/internal/netns"
	"pillion.dev/internal/test/namespace"
)

func passProgram(t *testing.T, name string) *ebpf.Program {
	t.Helper()
	return passProgramOf(t, ebpf.SchedCLS, name)
}

func passProgramOf(t *testing.T, kind ebpf.ProgramType, name string) *ebpf.Program {
	t.Helper()
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: name, Type: kind, License: "GPL", Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, -1), asm.Return()},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { program.Close() })
	return program
}

func filterNames(t *testing.T, point Point) []string {
	t.Helper()
	l, err := netlink.LinkByIndex(loopback.Index)
	if err != nil {
		t.Fatal(err)
	}
	filters, err := netlink.FilterList(l, clsactParent(point))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range filters {
		names = append(names, f.(*netlink.BpfFilter).Name)
	}
	return names
}

// TestFiltersOfKilledProcess: a clsact filter outlives its process; Clear and the next Attach
// remove it, and nobody else's.
func TestFiltersOfKilledProcess(t *testing.T) {
	namespace := namespace.New(t)
	program, other := passProgram(t, "test_tc"), passProgram(t, "other")
	if err := netns.Do(namespace, func() error {
		for _, point := range []Point{Egress, Ingress} {
			if _, err := Attach(program, loopback, Options{Point: point, Order: First, Clsact: true}); err != nil {
				return err
			}
			foreign := &netlink.BpfFilter{
				FilterAttrs: netlink.FilterAttrs{LinkIndex: loopback.Index, Parent: clsactParent(point), Handle: 1, Protocol: unix.ETH_P_ALL, Priority: 7},
				Fd:          other.FD(), Name: "test_tc", DirectAction: true,
			}
			if err := netlink.FilterAdd(foreign); err != nil {
				return err
			}
			if got := filterNames(t, point); len(got) != 2 {
				t.Errorf("%d filters at first: %v", len(got), got)
			}
			// The first one is forgotten, as by a process that was killed.
			second, err := Attach(program, loopback, Options{Point: point, Order: Last, Clsact: true})
			if err != nil {
				return err
			}
			if got := filterNames(t, point); len(got) != 2 {
				t.Errorf("%d filters after attaching again: %v", len(got), got)
			}
			if present, err := second.Present(); err != nil || !present {
				t.Errorf("present: %t, %v", present, err)
			}
			if err := Clear(loopback, point, "test_tc"); err != nil {
				t.Error(err)
			}
			if got := filterNames(t, point); len(got) != 1 {
				t.Errorf("%d filters after Clear: %v", len(got), got)
			}
			if present, err := second.Present(); err != nil || present {
				t.Errorf("present after Clear: %t, %v", present, err)
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// TestTCXTakesOverFromClsact: after an upgrade of the kernel, say, or of the options.
func TestTCXTakesOverFromClsact(t *testing.T) {
	if errors.Is(HaveTCX(), ebpf.ErrNotSupported) {
		return // a kernel that has only clsact
	}
	namespace := namespace.New(t)
	program := passProgram(t, "test_tc")
	if err := netns.Do(namespace, func() error {
		if _, err := Attach(program, loopback, Options{Point: Egress, Clsact: true}); err != nil {
			return err
		}
		a, err := Attach(program, loopback, Options{Point: Egress})
		if err != nil {
			return err
		}
		defer a.Close()
		if got := filterNames(t, Egress); len(got) != 0 {
			t.Errorf("filters left: %v", got)
		}
		return Clear(Device{Name: "none", Index: 99}, Egress, "test_tc")
	}); err == nil {
		t.Error("a missing device is cleared")
	}
}

// TestReplace puts one program in the place of another, by either hook.
func TestReplace(t *testing.T) {
	namespace := namespace.New(t)
	first, second := passProgram(t, "first_tc"), passProgram(t, "second_tc")
	if err := netns.Do(namespace, func() error {
		for _, clsact := range []bool{false, true} {
			a, err := Attach(first, loopback, Options{Point: Egress, Order: Last, Clsact: clsact})
			if err != nil {
				return err
			}
			for _, program := range []*ebpf.Program{second, second, first} {
				if err := a.Replace(program); err != nil {
					return err
				}
				if present, err := a.Present(); err != nil || !present {
					t.Errorf("clsact %t: present %t, %v", clsact, present, err)
				}
			}
			if got := filterNames(t, Egress); (a.filter != nil) != (len(got) == 1) || clsact && a.filter == nil {
				t.Errorf("clsact %t: filters %v", clsact, got)
			}
			if err := a.Close(); err != nil {
				return err
			}
			if got := filterNames(t, Egress); len(got) != 0 {
				t.Errorf("clsact %t: filters %v after Close", clsact, got)
			}
		}
		stays, err := Attach(first, loopback, Options{Point: Ingress, Order: First, Stay: true})
		if err != nil {
			return err
		}
		if err := stays.Replace(second); stays.filter == nil && !errors.Is(err, ebpf.ErrNotSupported) {
			t.Errorf("a program that stays was replaced: %v", err)
		}
		return stays.Close()
	}); err != nil {
		t.Fatal(err)
	}
}

// TestCloseLeavesTheNext: a program whose place another one has taken does not take that off.
func TestCloseLeavesTheNext(t *testing.T) {
	namespace := namespace.New(t)
	if err := netns.Do(namespace, func() error {
		link := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "v0"}, PeerName: "v1"}
		if err := netlink.LinkAdd(link); err != nil {
			return err
		}
		device, err := Find("v0")
		if err != nil {
			return err
		}
		for _, row := range []struct {
			name    string
			kind    ebpf.ProgramType
			options Options
		}{
			{"clsact", ebpf.SchedCLS, Options{Point: Ingress, Order: First, Stay: true, Clsact: true}},
			{"XDP", ebpf.XDP, Options{Point: XDP, Stay: true}},
		} {
			before, err := Attach(passProgramOf(t, row.kind, "test_pass"), device, row.options)
			if err != nil {
				return err
			}
			after, err := Attach(passProgramOf(t, row.kind, "test_pass"), device, row.options)
			if err != nil {
				return err
			}
			for range 2 { // the second time nothing is left to do
				if err := before.Close(); err != nil {
					return err
				}
			}
			if present, err := after.Present(); err != nil || !present {
				t.Errorf("%s: after the one before was closed: present %t, %v", row.name, present, err)
			}
			if err := after.Close(); err != nil {
				return err
			}
			if present, err := after.Present(); err != nil || present {
				t.Errorf("%s: after Close: present %t, %v", row.name, present, err)
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}
