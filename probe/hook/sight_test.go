package hook

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"pillion.dev/internal/netns"
	"pillion.dev/internal/test/namespace"
)

// TestSight: what is concluded from what passed the device and what the program saw, check by check.
func TestSight(t *testing.T) {
	type reading struct {
		passed, seen uint64
		hidden       bool
	}
	for _, row := range []struct {
		name     string
		readings []reading
		most     bool
	}{
		{"an idle device", []reading{{5, 0, false}, {5, 0, false}, {9, 0, false}, {9, 0, false}}, false},
		{"all is seen", []reading{{100, 90, false}, {200, 190, false}, {300, 290, false}, {400, 390, false}}, false},
		{"nothing from the beginning", []reading{{500, 0, false}, {510, 0, false}, {520, 0, true}, {530, 0, true}}, false},
		{"a burst before the program was attached, counted late", []reading{{0, 0, false}, {100, 0, false}, {100, 0, false}, {100, 0, false}}, false},
		{"nothing at a low rate", []reading{{0, 0, false}, {4, 0, false}, {8, 0, false}, {12, 0, false}, {16, 0, true}}, false},
		{"nothing any more", []reading{{100, 100, false}, {220, 205, false}, {320, 205, false}, {420, 205, false}, {520, 205, true}}, false},
		{"a card that counts late", []reading{{0, 0, false}, {0, 100, false}, {100, 100, false}, {100, 100, false}, {100, 100, false}}, false},
		{"one of many, as address resolution", []reading{{0, 0, false}, {100, 0, false}, {200, 0, true}, {300, 1, true}, {400, 1, true}, {500, 2, true}}, false},
		{"seen again", []reading{{0, 0, false}, {100, 0, false}, {200, 0, true}, {205, 3, true}, {300, 95, false}, {400, 195, false}}, false},
		{"reset of the device's counter", []reading{{100, 0, false}, {200, 0, false}, {5, 0, false}, {50, 0, false}, {60, 0, false}, {70, 0, true}}, false},
		{"a program that was replaced", []reading{{100, 900, false}, {200, 50, false}, {300, 150, false}}, false},
		{"one in eight at egress", []reading{{0, 0, false}, {80, 10, false}, {160, 20, false}, {240, 30, false}, {320, 40, false}}, false},
		{"one in eight at ingress", []reading{{0, 0, false}, {80, 10, false}, {160, 20, true}, {240, 30, true}, {320, 110, false}}, true},
		{"half at ingress", []reading{{0, 0, false}, {80, 40, false}, {160, 80, false}, {240, 120, false}, {320, 160, false}}, true},
		{"a card that counts every fifth time", []reading{{0, 0, false}, {0, 100, false}, {0, 200, false}, {500, 300, false}, {500, 400, false}, {500, 500, false}, {1000, 600, false}, {1000, 700, false}}, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			var s sight
			for i, r := range row.readings {
				if got := s.misses(r.passed, r.seen, row.most); got != r.hidden {
					t.Errorf("check %d of passed %d, seen %d: hidden %t", i+1, r.passed, r.seen, got)
				}
			}
		})
	}
}

// TestHiddenOnARemovedDevice: the error says that the device is gone.
func TestHiddenOnARemovedDevice(t *testing.T) {
	a := Attachment{device: Device{Name: "gone", Index: 1 << 30}}
	_, _, err := a.Hidden(1, func() (uint64, error) { return 0, nil })
	if !errors.Is(err, ErrNoDevice) {
		t.Errorf("error %v, want %v", err, ErrNoDevice)
	}
}

// TestAhead: programs and filters that a packet meets first are named in their order, and those of
// Pillion and those behind the program are not.
func TestAhead(t *testing.T) {
	ours, first, own, last := passProgram(t, "test_tc"), passProgram(t, "first"), passProgram(t, "source_return"), passProgram(t, "last")
	info, err := first.Info()
	if err != nil {
		t.Fatal(err)
	}
	id, _ := info.ID()
	for _, point := range []Point{Egress, Ingress} {
		for _, clsact := range []bool{false, true} {
			t.Run(fmt.Sprintf("point %d, clsact %t", point, clsact), func(t *testing.T) {
				if !clsact && HaveTCX() != nil {
					t.Skip("needs tcx, Linux 6.6")
				}
				if err := netns.Do(namespace.New(t), func() error {
					attached, err := Attach(ours, loopback, Options{Point: point, Order: Last, Clsact: clsact})
					if err != nil {
						return err
					}
					for _, other := range []struct {
						program  *ebpf.Program
						anchor   link.Anchor
						priority uint16
					}{{own, link.Head(), 1}, {first, link.Head(), 2}, {last, link.Tail(), clsactPriority + 1}} {
						if clsact {
							err = netlink.FilterAdd(&netlink.BpfFilter{
								FilterAttrs: netlink.FilterAttrs{LinkIndex: loopback.Index, Parent: clsactParent(point), Handle: 1, Protocol: unix.ETH_P_ALL, Priority: other.priority},
								Fd:          other.program.FD(), Name: map[*ebpf.Program]string{own: "source_return", first: "first", last: "last"}[other.program], DirectAction: true,
							})
						} else {
							var l link.Link
							if l, err = link.AttachTCX(link.TCXOptions{Interface: loopback.Index, Attach: attached.attachType(), Program: other.program, Anchor: other.anchor}); err == nil {
								defer l.Close()
							}
						}
						if err != nil {
							return err
						}
					}
					l, err := netlink.LinkByIndex(loopback.Index)
					if err != nil {
						return err
					}
					if ahead, err := attached.ahead(l); err != nil || !slices.Equal(ahead, []string{fmt.Sprintf("first (%d)", id)}) {
						t.Errorf("ahead %v, want first (%d): %v", ahead, id, err)
					}
					return attached.Close()
				}); err != nil {
					t.Fatal(err)
				}
			})
		}
	}
}
