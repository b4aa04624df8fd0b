package doctor

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os/user"
	"strconv"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"

	"pillion.dev/probe/hook"
	"pillion.dev/session"
)

// minIPv6MTU is the minimum MTU of IPv6 (RFC 8200).
const minIPv6MTU = 1280

// device is a network interface.
type device struct {
	name     string
	mtu      int
	offloads offloads
	programs []program // in the order in which packets meet them, for each direction
	// unread is why programs may be incomplete.
	unread error
}

// program is a BPF program attached to a device.
type program struct {
	place string // tcx ingress, tcx egress, clsact ingress, clsact egress, xdp
	name  string
	id    uint32
	owner string // user who loaded it
}

func (p program) egress() bool { return strings.HasSuffix(p.place, "egress") }

func (p program) String() string {
	text := fmt.Sprintf("%s %s (id %d", p.place, p.name, p.id)
	if p.owner != "" {
		text += ", loaded by " + p.owner
	}
	if hook.Ours(p.name) {
		text += ", part of Pillion"
	}
	return text + ")"
}

func checkDevices() []session.Check {
	links, err := netlink.LinkList()
	if err != nil && len(links) == 0 {
		return []session.Check{unknown("devices", fmt.Errorf("list devices: %w", err))}
	}
	var checks []session.Check
	for _, l := range links {
		if flags := l.Attrs().Flags; flags&net.FlagUp != 0 && flags&net.FlagLoopback == 0 {
			checks = append(checks, judgeDevice(readDevice(l))...)
		}
	}
	if len(checks) == 0 {
		return []session.Check{{
			Name: "devices", Level: Error, Found: "no network device is up", Advice: "ip link set DEVICE up",
		}}
	}
	return checks
}

func judgeDevice(d device) []session.Check {
	check := ok("device "+d.name, "MTU %d bytes; %s", d.mtu, d.offloads)
	switch {
	case d.mtu < minIPv6MTU:
		check.Level = Warning
		check.Advice = fmt.Sprintf("IPv6 needs an MTU of at least %d bytes: ip link set dev %s mtu 1500", minIPv6MTU, d.name)
	case d.offloads["lro"] == offloadOn:
		check.Level = Warning
		check.Advice = fmt.Sprintf("LRO merges packets before their marks are read: ethtool -K %s lro off", d.name)
	}
	return []session.Check{check, judgePrograms(d)}
}

func judgePrograms(d device) session.Check {
	name := "programs on " + d.name
	if d.unread != nil {
		check := unknown(name, d.unread)
		for _, p := range d.programs {
			check.Found += "; " + p.String()
		}
		return check
	}
	var all []string
	foreign := false
	for _, p := range d.programs {
		all = append(all, p.String())
		foreign = foreign || !hook.Ours(p.name)
	}
	if len(all) == 0 {
		return ok(name, "none")
	}
	check := ok(name, "%s", strings.Join(all, "; "))
	if ahead := d.ahead(); ahead != "" {
		check.Level, check.Found, check.Advice = Warning, check.Found+"; "+ahead, session.Advice(string(session.Hidden))
	} else if foreign {
		check.Level = Warning
		check.Advice = fmt.Sprintf("foreign BPF programs may drop or rewrite marked packets, and XDP programs run before marks are read: bpftool net show dev %s", d.name)
	}
	return check
}

// ahead names the programs of others that packets meet before Pillion's and that can hide them from it; empty: none does.
func (d device) ahead() string {
	for i, ours := range d.programs {
		if !hook.Ours(ours.name) {
			continue
		}
		var names []string
		for _, p := range d.programs[:i] {
			if p.egress() == ours.egress() && !hook.Ours(p.name) {
				names = append(names, p.name)
			}
		}
		if len(names) > 0 {
			return fmt.Sprintf("%s before Pillion's %s can hide packets from it", strings.Join(names, " and "), ours.name)
		}
	}
	return ""
}

func readDevice(l netlink.Link) device {
	attrs := l.Attrs()
	d := device{name: attrs.Name, mtu: attrs.MTU, offloads: readOffloads(attrs.Name)}
	add := func(place string, id uint32) {
		p := program{place: place, name: "unknown", id: id}
		err := p.inspect()
		if errors.Is(err, fs.ErrNotExist) {
			return // detached meanwhile
		}
		if err != nil {
			d.unread = err
		}
		d.programs = append(d.programs, p)
	}
	if xdp := attrs.Xdp; xdp != nil && xdp.Attached {
		add("xdp", xdp.ProgId)
	}
	for _, at := range []struct {
		place  string
		attach ebpf.AttachType
	}{{"tcx ingress", ebpf.AttachTCXIngress}, {"tcx egress", ebpf.AttachTCXEgress}} {
		found, err := link.QueryPrograms(link.QueryOptions{Target: attrs.Index, Attach: at.attach})
		if err != nil {
			without := hook.HaveTCX()
			if !errors.Is(without, ebpf.ErrNotSupported) {
				d.unread = fmt.Errorf("list %s: %w", at.place, cmp.Or(without, err))
			}
			continue
		}
		for _, p := range found.Programs {
			add(at.place, uint32(p.ID))
		}
	}
	for _, filter := range clsactFilters(l) {
		add(filter.place, filter.id)
	}
	return d
}

// clsactFilters are the BPF programs attached by tc filters, the hook that predates
// tcx. A device without clsact is not an error.
func clsactFilters(l netlink.Link) []program {
	var programs []program
	for _, at := range []struct {
		place  string
		parent uint32
	}{{"clsact ingress", netlink.HANDLE_MIN_INGRESS}, {"clsact egress", netlink.HANDLE_MIN_EGRESS}} {
		filters, err := netlink.FilterList(l, at.parent)
		if err != nil {
			continue
		}
		for _, f := range filters {
			if bpf, isBPF := f.(*netlink.BpfFilter); isBPF {
				programs = append(programs, program{place: at.place, id: uint32(bpf.Id)})
			}
		}
	}
	return programs
}

// inspect reads the program's name and the user who loaded it.
func (p *program) inspect() error {
	loaded, err := ebpf.NewProgramFromID(ebpf.ProgramID(p.id))
	if err != nil {
		return fmt.Errorf("inspect BPF program %d: %w", p.id, err)
	}
	defer loaded.Close()
	info, err := loaded.Info()
	if err != nil {
		return fmt.Errorf("inspect BPF program %d: %w", p.id, err)
	}
	p.name = strings.ToValidUTF8(info.Name, "?")
	if p.name == "" {
		p.name = "unnamed"
	}
	if uid, known := info.CreatedByUID(); known {
		p.owner = fmt.Sprintf("user %d", uid)
		if u, err := user.LookupId(strconv.Itoa(int(uid))); err == nil {
			p.owner = u.Username
		}
	}
	return nil
}
