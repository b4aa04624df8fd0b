package host

import (
	"fmt"
	"net"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"pillion.dev/internal/clock"
	"pillion.dev/session"
)

// Describe fills in the parts of the agent's state that describe its host: kernel
// release, boot ID, identifier as an IOAM node, and interfaces with their global addresses.
func Describe() (session.State, error) {
	kernel, err := Kernel()
	if err != nil {
		return session.State{}, err
	}
	boot, err := Boot()
	if err != nil {
		return session.State{}, err
	}
	ioam, _ := readIOAM(ioamFolder) // the doctor reports what is wrong with it
	interfaces, err := Addresses()
	return session.State{Kernel: kernel, Boot: boot, IOAMID: ioam.ID, Interfaces: interfaces}, err
}

// Boot is the running kernel's boot ID. Containers of one kernel share it, as they
// share its clock.
func Boot() (string, error) {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("read boot ID: %w", err)
	}
	boot := strings.TrimSpace(string(text))
	if clock.Injected() {
		boot += " with a clock of its own"
	}
	return boot, nil
}

// Kernel is the release of the running kernel.
func Kernel() (string, error) {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return "", fmt.Errorf("read kernel release: %w", err)
	}
	return unix.ByteSliceToString(name.Release[:]), nil
}

// Addresses are the host's interfaces, each with its global unicast addresses. Loopback is among
// them if it has any, as on routers: they reply to traces from it.
func Addresses() ([]session.Interface, error) {
	found, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("list interfaces: %w", err)
	}
	var interfaces []session.Interface
	for _, i := range found {
		addresses, err := i.Addrs()
		if err != nil {
			continue // removed meanwhile
		}
		described := session.Interface{
			Name: i.Name, MTU: i.MTU, Up: i.Flags&net.FlagUp != 0, Loopback: i.Flags&net.FlagLoopback != 0, Addresses: global(addresses),
		}
		if !described.Loopback || len(described.Addresses) > 0 {
			interfaces = append(interfaces, described)
		}
	}
	return interfaces, nil
}

func global(addresses []net.Addr) []string {
	var prefixes []string
	for _, a := range addresses {
		if prefix, ok := a.(*net.IPNet); ok && prefix.IP.IsGlobalUnicast() {
			prefixes = append(prefixes, prefix.String())
		}
	}
	return prefixes
}
