package hook

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
)

const (
	sightEvery = 900 * time.Millisecond
	// hiddenLeast is how many packets have to pass before they say anything.
	hiddenLeast = 10
	namedMax    = 3 // programs and filters
)

// own are the names of Pillion's programs, which end no chain.
var own = []string{"source_tc", "source_dispatch", "source_return", "destination_tc", "destination_xdp"}

// Ours reports whether a program is Pillion's by its name, which does not prove who loaded it.
func Ours(name string) bool { return slices.Contains(own, name) }

// A Streak counts successive readings that show the same: one alone can be chance.
type Streak int

// Add notes a reading, and reports whether it and those before it show something so many times in a row.
func (s *Streak) Add(shows bool, enough Streak) bool {
	if !shows {
		*s = 0
		return false
	}
	*s++
	return *s >= enough
}

// sight is what is known of whether packets reach a program.
type sight struct {
	checked      time.Duration
	text         string
	hidden       bool
	few          Streak // checks in which the program saw too little
	passed, seen uint64 // at the first of these
	latest       uint64 // packets that had passed at the latest of them
}

// hiddenAfter is how many of these it takes: the first, and two in which packets passed nevertheless.
const hiddenAfter = 3

// Hidden says which programs and filters of others run before this program and keep packets from
// it; empty: none. It compares what the program has seen with the packets of the device, about once
// a second, and reports whether that has changed; now is of the monotonic clock. For programs of XDP it is always empty.
func (a *Attachment) Hidden(now time.Duration, seen func() (uint64, error)) (text string, changed bool, err error) {
	s := &a.sight
	if a.options.Point == XDP || s.checked != 0 && now-s.checked < sightEvery {
		return s.text, false, nil
	}
	s.checked = now
	var others []string
	var count uint64
	l, err := byIndex(a.device.Index)
	if err == nil {
		count, err = seen()
	}
	if err == nil && s.misses(a.passed(l), count, a.options.Point == Ingress) {
		others, err = a.ahead(l)
	}
	if err != nil {
		return "", false, fmt.Errorf("check whether packets on %q reach the program: %w", a.device.Name, err)
	}
	if len(others) > 0 {
		text = fmt.Sprintf("%s: packets on %s do not reach Pillion's program, which runs after it",
			strings.Join(others[:min(len(others), namedMax)], " or "), l.Attrs().Name)
	}
	changed = text != s.text
	s.text = text
	return text, changed, nil
}

// look makes the first check, of a program that has just been attached and has seen nothing yet.
func (a *Attachment) look() {
	if l, err := byIndex(a.device.Index); err == nil {
		a.sight.misses(a.passed(l), 0, false)
	}
}

// passed returns how many packets have passed the hook's direction of the device, as far as the device
// counts them.
func (a *Attachment) passed(l netlink.Link) uint64 {
	statistics := l.Attrs().Statistics
	switch {
	case statistics == nil:
		return 0
	case a.options.Point == Egress:
		return statistics.TxPackets
	}
	return statistics.RxPackets
}

// misses reports whether the program is hidden: packets passed the device and it saw none, in two
// checks after one without any change, since the counters of cards lag. It no longer is when it sees
// a quarter of them. Where nothing but programs can take packets away, as at ingress (most), seeing
// less than a quarter counts like seeing none.
func (s *sight) misses(passed, seen uint64, most bool) bool {
	saw, went := seen-s.seen, passed-s.passed
	few := saw == 0 || most && saw < went/4
	switch {
	case passed < s.passed: // the counter was reset
		s.few = 0
	case s.hidden && went < hiddenLeast:
		return true
	case s.hidden:
		s.hidden, s.few = saw < went/4, 0
	case few && s.few > 0:
		s.hidden = went >= hiddenLeast && passed > s.latest && s.few.Add(true, hiddenAfter)
		s.latest = passed
		return s.hidden
	default:
		s.few.Add(few, hiddenAfter)
	}
	s.passed, s.seen, s.latest = passed, seen, passed
	return s.hidden
}

// ahead returns what a packet meets before the program, in that order, each as NAME (ID).
func (a *Attachment) ahead(l netlink.Link) (others []string, err error) {
	add := func(name string, id uint32) {
		if !Ours(name) {
			others = append(others, fmt.Sprintf("%s (%d)", name, id))
		}
	}
	if xdp := l.Attrs().Xdp; a.options.Point == Ingress && xdp != nil && xdp.Attached {
		add(nameOf(ebpf.ProgramID(xdp.ProgId), "XDP program"), xdp.ProgId)
	}
	result, err := link.QueryPrograms(link.QueryOptions{Target: a.device.Index, Attach: a.attachType()})
	if err != nil && (a.filter == nil || !errors.Is(withoutTCX(err), ebpf.ErrNotSupported)) {
		return nil, err
	}
	for i := 0; err == nil && i < len(result.Programs); i++ {
		id := result.Programs[i].ID
		if id == a.id {
			return others, nil
		}
		add(nameOf(id, "program"), uint32(id))
	}
	if a.filter == nil {
		return nil, nil // it has been taken off
	}
	filters, err := netlink.FilterList(l, a.filter.Parent)
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
	return nil, err
}

// nameOf is the name of a program, which takes CAP_SYS_ADMIN to read, or else another word for it.
func nameOf(id ebpf.ProgramID, unread string) string {
	program, err := ebpf.NewProgramFromID(id)
	if err != nil {
		return unread
	}
	defer program.Close()
	if info, err := program.Info(); err == nil {
		return info.Name
	}
	return unread
}
