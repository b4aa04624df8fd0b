package routerreport

import (
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"pillion.dev/agent/doctor"
	"pillion.dev/agent/host"
	"pillion.dev/internal/netns"
	"pillion.dev/internal/version"
)

// Environment describes where and how a profile was taken.
type Environment struct {
	Host       string   `json:"host"`
	Kernel     string   `json:"kernel"`
	Processors int      `json:"processors"`
	Version    string   `json:"version"`
	Namespace  string   `json:"namespace"` // empty: the caller's namespace
	Inputs     []string `json:"inputs"`    // empty: all
	Outputs    []string `json:"outputs"`
	Filter     string   `json:"filter"`
	Sampling   uint32   `json:"sampling"` // one in N packets
	Interval   string   `json:"interval"`
	Causes     bool     `json:"causes"` // causes of coffee breaks were recorded
	// Whether the namespace forwarded packets when the profile began.
	ForwardsIPv4 bool     `json:"forwards_ipv4"`
	ForwardsIPv6 bool     `json:"forwards_ipv6"`
	Devices      []Device `json:"devices"`
}

// Device is an interface of the router as it was when the profile began.
type Device struct {
	Name     string `json:"name"`
	Index    int    `json:"index"`
	Kind     string `json:"kind"` // of the kernel: veth, tun; device for hardware
	MTU      int    `json:"mtu"`
	Queueing string `json:"qdisc"`
	Offloads string `json:"offloads"`
	Up       bool   `json:"up"`
}

// survey describes the router before the profile starts.
func survey(options Options) (Environment, error) {
	e := Environment{
		Version: version.String(), Namespace: options.Name, Inputs: options.In, Outputs: options.Out,
		Filter: options.Filter, Sampling: max(options.Sampling, 1), Interval: options.Interval.String(), Causes: options.Causes,
	}
	var err error
	if e.Host, err = os.Hostname(); err != nil {
		return e, fmt.Errorf("read host's name: %w", err)
	}
	if e.Kernel, err = host.Kernel(); err != nil {
		return e, err
	}
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err == nil {
		e.Processors = set.Count()
	}
	if options.Namespace == nil {
		return e, e.inside()
	}
	return e, netns.DoIn(options.Namespace, e.inside)
}

// inside reads the interfaces and settings of the current namespace.
func (e *Environment) inside() error {
	links, err := netlink.LinkList()
	if err != nil {
		return fmt.Errorf("list devices: %w", err)
	}
	for _, l := range links {
		attrs := l.Attrs()
		if attrs.Flags&net.FlagLoopback != 0 {
			continue
		}
		e.Devices = append(e.Devices, Device{
			Name: attrs.Name, Index: attrs.Index, Kind: l.Type(), MTU: attrs.MTU, Queueing: queueing(l),
			Offloads: doctor.Offloads(attrs.Name), Up: attrs.Flags&net.FlagUp != 0,
		})
	}
	e.ForwardsIPv4 = isSet("/proc/sys/net/ipv4/ip_forward")
	e.ForwardsIPv6 = isSet("/proc/sys/net/ipv6/conf/all/forwarding")
	return nil
}

// queueing is the root qdisc, or noqueue without one.
func queueing(l netlink.Link) string {
	disciplines, err := netlink.QdiscList(l)
	if err != nil {
		return "unknown"
	}
	for _, q := range disciplines {
		if q.Attrs().Parent == netlink.HANDLE_ROOT {
			return q.Type()
		}
	}
	return "noqueue"
}

func isSet(path string) bool {
	text, err := os.ReadFile(path)
	return err == nil && strings.TrimSpace(string(text)) != "0"
}

func (e Environment) names() map[int]string {
	names := map[int]string{}
	for _, d := range e.Devices {
		names[d.Index] = d.Name
	}
	return names
}

// where names the router's namespace.
func (e Environment) where() string {
	if e.Namespace == "" {
		return "this network namespace"
	}
	return "namespace " + e.Namespace
}

// scope describes the selected packets.
func (e Environment) scope() string {
	parts := []string{"ingress " + orAny(e.Inputs), "egress " + orAny(e.Outputs)}
	if e.Filter != "" {
		parts = append(parts, e.Filter)
	}
	if e.Sampling > 1 {
		parts = append(parts, fmt.Sprintf("1 in %d at random", e.Sampling))
	}
	return strings.Join(parts, ", ")
}

func orAny(names []string) string {
	if len(names) == 0 {
		return "any"
	}
	return strings.Join(names, ", ")
}

// idle suggests why nothing was forwarded.
func (e Environment) idle() string {
	var off []string
	if !e.ForwardsIPv4 {
		off = append(off, "net.ipv4.ip_forward")
	}
	if !e.ForwardsIPv6 {
		off = append(off, "net.ipv6.conf.all.forwarding")
	}
	switch {
	case len(off) == 2:
		return "nothing was forwarded: IP forwarding is disabled in " + e.where() + "; enable it with: sysctl -w " + strings.Join(off, "=1 ") + "=1"
	case len(off) == 1:
		return "nothing was forwarded: check that there is matching traffic of the address family that is forwarded; disabled: " + off[0]
	}
	return "nothing was forwarded although IP forwarding is enabled: check that there is traffic that matches --dev and --filter"
}
