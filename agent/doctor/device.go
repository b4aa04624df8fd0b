package doctor

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os/user"
	"slices"
	"strconv"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"

	"pillion.dev/probe/hook"
	"pillion.dev/session"
)

// ipv6Least is the least MTU with which IPv6 works (RFC 8200).
const ipv6Least = 1280

// device is a network interface as it was found.
type device struct {
	name     string
	mtu      int
	offloads offloads
	programs []program
	// unread says why programs may be incomplete.
	unread error
}

// program is a BPF program on a device.
type program struct {
	place string // tcx ingress, tcx egress, clsact ingress, clsact egress, xdp
	name  string
	id    uint32
	owner string // user who loaded it
}

// own are the names of this product's programs.
var own = []string{"source_tc", "source_return", "destination_tc", "destination_xdp"}

// ours is by name only: it proves nothing about who loaded it.
func (p program) ours() bool { return slices.Contains(own, p.name) }

func (p program) String() string {
	text := fmt.Sprintf("%s %s (id %d", p.place, p.name, p.id)
	if p.owner != "" {
		text += ", loaded by " + p.owner
	}
	if p.ours() {
		text += ", of Pillion"
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
			Name: "devices", Level: Error, Found: "none is up", Advice: "ip link set DEVICE up",
		}}
	}
	return checks
}

func judgeDevice(d device) []session.Check {
	check := ok("device "+d.name, "MTU %d bytes; %s", d.mtu, d.offloads)
	switch {
	case d.mtu < ipv6Least:
		check.Level = Warning
		check.Advice = fmt.Sprintf("IPv6 needs %d bytes: ip link set dev %s mtu 1500", ipv6Least, d.name)
	case d.offloads["lro"] == offloadOn:
		check.Level = Warning
		check.Advice = fmt.Sprintf("LRO joins packets before their marks are read: ethtool -K %s lro off", d.name)
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
		foreign = foreign || !p.ours()
	}
	if len(all) == 0 {
		return ok(name, "none")
	}
	check := ok(name, "%s", strings.Join(all, "; "))
	if foreign {
		check.Level = Warning
		check.Advice = fmt.Sprintf("others' programs may drop or rewrite marked packets, xdp before marks are read: bpftool net show dev %s", d.name)
	}
	return check
}

func readDevice(l netlink.Link) device {
	attrs := l.Attrs()
	d := device{name: attrs.Name, mtu: attrs.MTU, offloads: readOffloads(attrs.Name)}
	add := func(place string, id uint32) {
		p := program{place: place, name: "unknown", id: id}
		err := p.inspect()
		if errors.Is(err, fs.ErrNotExist) {
			return // it went away
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

// clsactFilters are the BPF programs on the hook of kernels before tcx, which
// still exists. A device without it is no error.
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

// inspect asks the kernel for the program's name and who loaded it.
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
		p.name = "without name"
	}
	if uid, known := info.CreatedByUID(); known {
		p.owner = fmt.Sprintf("user %d", uid)
		if u, err := user.LookupId(strconv.Itoa(int(uid))); err == nil {
			p.owner = u.Username
		}
	}
	return nil
}
