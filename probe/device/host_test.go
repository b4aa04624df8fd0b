// Package device tests the probes together on the kinds of devices that Linux has, and
// generates docs/reference/devices.md. All of it is tests; nothing is shipped.
package device

import (
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pillion.dev/internal/netns"
	"pillion.dev/internal/test/hang"
	"pillion.dev/internal/test/namespace"
)

// host is a network namespace by its name.
type host struct {
	t    testing.TB
	name string
}

// settings disable unsolicited packets, and duplicate address detection, which takes time.
// A device answers ARP only for its own addresses, not for those of a device above it.
var settings = []struct{ path, value string }{
	{"net/ipv6/conf/all/accept_dad", "0"},
	{"net/ipv6/conf/default/accept_dad", "0"},
	{"net/ipv6/conf/default/router_solicitations", "0"},
	{"net/ipv4/conf/all/arp_ignore", "1"},
	{"net/ipv4/conf/all/rp_filter", "0"},
	{"net/ipv4/conf/default/rp_filter", "0"},
}

func newHost(t testing.TB) host {
	t.Helper()
	h := host{t, namespace.New(t)}
	for _, s := range settings {
		h.set(s.path, s.value)
	}
	return h
}

// forward makes the host a router.
func (h host) forward() {
	h.t.Helper()
	h.set("net/ipv4/ip_forward", "1")
	h.set("net/ipv6/conf/all/forwarding", "1")
}

func (h host) set(path, value string) {
	h.t.Helper()
	h.do(func() error { return os.WriteFile(filepath.Join("/proc/sys", path), []byte(value), 0) })
}

// do runs f in the host.
func (h host) do(f func() error) {
	h.t.Helper()
	if err := netns.Do(h.name, f); err != nil {
		h.t.Fatalf("in %s: %v", h.name, err)
	}
}

// try runs a command in the host and returns its output.
func (h host) try(command string) (string, error) {
	var output []byte
	words := strings.Fields(command)
	err := netns.Do(h.name, func() (err error) {
		output, err = exec.Command(words[0], words[1:]...).CombinedOutput()
		return err
	})
	return string(output), err
}

// absences are what ip says about kinds of devices, and parts of IPsec, that a kernel lacks.
var absences = []string{"Unknown device type", "algorithm not found", "Protocol not supported"}

// run runs commands in the host. A kernel without a kind of devices skips their test.
func (h host) run(commands ...string) {
	h.t.Helper()
	for _, command := range commands {
		output, err := h.try(command)
		for _, absence := range absences {
			if strings.Contains(output, absence) {
				h.t.Skipf("this kernel has no such devices: %s: %s", command, output)
			}
		}
		if err != nil {
			h.t.Fatalf("in %s: %s: %v\n%s", h.name, command, err, output)
		}
	}
}

// connect joins two hosts by a veth pair with a device name at each end.
func connect(a, b host, atA, atB string) {
	a.t.Helper()
	a.run("ip link add " + atA + " type veth peer name " + atB + " netns " + b.name)
	a.run("ip link set dev " + atA + " up")
	b.run("ip link set dev " + atB + " up")
}

// address adds addresses to a device and sets it up.
func (h host) address(device string, prefixes ...string) {
	h.t.Helper()
	for _, prefix := range prefixes {
		command := "ip addr add " + prefix + " dev " + device
		if strings.Contains(prefix, ":") {
			command += " nodad"
		}
		h.run(command)
	}
	h.run("ip link set dev " + device + " up")
}

// eventually waits for a condition.
func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	deadline := time.After(hang.Limit)
	retry := time.NewTicker(5 * time.Millisecond)
	defer retry.Stop()
	for !condition() {
		select {
		case <-retry.C:
		case <-deadline:
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// family of an address, as a test is named after it.
func family(address netip.Addr) string {
	if address.Is4() {
		return "ipv4"
	}
	return "ipv6"
}

// replace puts values in the place of words, given as pairs.
func replace(text string, pairs ...string) string { return strings.NewReplacer(pairs...).Replace(text) }
