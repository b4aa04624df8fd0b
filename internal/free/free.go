// Package free finds ports for tests and benchmarks that must know one before something listens on it.
package free

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"sync"
)

// TB is the part of testing.TB that Port and Address need.
type TB interface {
	Helper()
	Fatal(args ...any)
}

// reserved are the listeners of reservations, by port.
var reserved sync.Map

// lowest is the lowest that Find returns.
const lowest = 10_000

// Find returns a TCP port of the loopback address 127.0.0.1 on which nobody listens, and which Find returns to no
// other caller in this network namespace, in whatever process, until this process ends. It is outside the range of
// ports that the kernel assigns, so that no other connection or listener takes it.
func Find() (int, error) {
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		return 0, fmt.Errorf("find free port: %w", err)
	}
	var assigned int
	if _, err := fmt.Sscan(string(text), &assigned); err != nil || assigned <= lowest {
		return 0, fmt.Errorf("find free port: the kernel assigns the ports %.50q (%v), want none up to %d", text, err, lowest)
	}
	for range assigned {
		port := lowest + rand.N(assigned-lowest)
		if !reserve(port) {
			continue
		}
		listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil { // somebody listens
			continue
		}
		return port, listener.Close()
	}
	return 0, fmt.Errorf("find free port: none from %d to %d", lowest, assigned-1)
}

// reserve reserves a port among callers of Find. The kernel ends the reservation with this process: it is an
// abstract socket, whose listener is never closed. The tests of the page reserve ports by the same name.
func reserve(port int) bool {
	name := fmt.Sprintf("@pillion-port-%d", port)
	name += strings.Repeat("\x00", 108-len(name)) // as long as it may be: Node pads it so
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: name})
	if err == nil {
		reserved.Store(port, listener) // or its finalizer closes it
	}
	return err == nil
}

// Port returns a port that Find found.
func Port(t TB) int {
	t.Helper()
	port, err := Find()
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// Address returns a Port of 127.0.0.1, as ADDRESS:PORT.
func Address(t TB) string {
	t.Helper()
	return fmt.Sprintf("127.0.0.1:%d", Port(t))
}
