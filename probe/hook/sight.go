package hook

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
)

// passing programs are Pillion's, which end no chain.
var passing = []string{"source_tc", "source_dispatch", "source_return", "destination_tc"}

// Passed returns the packets that the device has counted in the direction of the attachment.
func (a *Attachment) Passed() (packets uint64, err error) {
	l, err := netlink.LinkByIndex(a.device.Index)
	if err != nil {
		return 0, fmt.Errorf("count packets of device %q: %w", a.device.Name, err)
	}
	switch statistics := l.Attrs().Statistics; {
	case statistics == nil:
		return 0, nil
	case a.options.Point == Egress:
		return statistics.TxPackets, nil
	default:
		return statistics.RxPackets, nil
	}
}

// Ahead returns what a packet meets before the program, in that order, each as NAME (ID): programs
// of others and filters of traffic control, any of which may end the chain. XDP programs, and what
// comes before a program of XDP, are not among them.
func (a *Attachment) Ahead() (others []string, err error) {
	if a.options.Point == XDP {
		return nil, nil
	}
	result, err := link.QueryPrograms(link.QueryOptions{Target: a.device.Index, Attach: a.attachType()})
	if err != nil && (a.filter == nil || withoutTCX(err) == err) {
		return nil, fmt.Errorf("list programs on device %q: %w", a.device.Name, err)
	}
	add := func(name string, id uint32) {
		if !slices.Contains(passing, name) {
			others = append(others, fmt.Sprintf("%s (%d)", name, id))
		}
	}
	if result != nil {
		for _, p := range result.Programs {
			if p.ID == a.id {
				return others, nil
			}
			add(nameOf(p.ID), uint32(p.ID))
		}
	}
	if a.filter == nil {
		return nil, nil // it has been taken off
	}
	l, err := netlink.LinkByIndex(a.device.Index)
	if err != nil {
		return nil, fmt.Errorf("list filters of device %q: %w", a.device.Name, err)
	}
	filters, err := netlink.FilterList(l, a.filter.Parent)
	if err != nil {
		return nil, fmt.Errorf("list filters of device %q: %w", a.device.Name, err)
	}
	for _, f := range filters {
		bpf, ok := f.(*netlink.BpfFilter)
		switch {
		case ok && bpf.Id == int(a.id):
			return others, nil
		case ok:
			add(bpf.Name, uint32(bpf.Id))
		default:
			add(f.Type()+" filter", f.Attrs().Handle)
		}
	}
	return nil, nil
}

// nameOf needs CAP_SYS_ADMIN.
func nameOf(id ebpf.ProgramID) string {
	program, err := ebpf.NewProgramFromID(id)
	if err != nil {
		return "program"
	}
	defer program.Close()
	info, err := program.Info()
	if err != nil || info.Name == "" {
		return "program"
	}
	return info.Name
}

// Sight finds out from counters whether packets reach a program.
type Sight struct {
	hidden         bool
	steady, missed int // checks in which the program saw nothing, and packets passed nevertheless
	passed, seen   uint64
}

// hiddenLeast is how many packets have to pass before they say anything.
const hiddenLeast = 10

// Hidden compares what passed the device, read first, with what the program saw; it is called about
// once a second. A program is hidden once packets passed and it saw none, in two checks after one
// without any change, since the counters of cards lag. It is no longer hidden when it sees a
// quarter of them.
func (s *Sight) Hidden(passed, seen uint64) bool {
	saw, went := seen-s.seen, passed-s.passed
	switch {
	case passed < s.passed: // the counter was reset
		*s = Sight{hidden: s.hidden, passed: passed, seen: seen}
	case s.hidden && went < hiddenLeast:
	case s.hidden:
		*s = Sight{hidden: saw < went/4, passed: passed, seen: seen}
	case saw != 0 || s.steady == 0:
		*s = Sight{passed: passed, seen: seen}
		if saw == 0 {
			s.steady = 1
		}
	case went >= hiddenLeast:
		s.missed++
		s.hidden = s.missed >= 2
	}
	return s.hidden
}

// HiddenText says what hides a program; empty if there is nothing before it.
func (a *Attachment) HiddenText() (string, error) {
	others, err := a.Ahead()
	if err != nil || len(others) == 0 {
		return "", err
	}
	return fmt.Sprintf("hidden by %s: packets on %s do not reach Pillion's program, which runs after it",
		strings.Join(others[:min(len(others), 3)], " or "), a.device.Name), nil
}
