// Package free finds ports for tests that must know one before something listens on it.
package free

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"testing"
)

// lowest is the lowest that Port returns.
const lowest = 10_000

// Port returns a TCP port of the loopback address 127.0.0.1 on which nobody listens. It is outside the range of ports
// that the kernel assigns, so that no other connection or listener takes it before the test does.
func Port(t testing.TB) int {
	t.Helper()
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		t.Fatal(err)
	}
	var assigned int
	if _, err := fmt.Sscan(string(text), &assigned); err != nil || assigned <= lowest {
		t.Fatalf("the kernel assigns the ports %.50q (%v), want none up to %d", text, err, lowest)
	}
	for {
		port := lowest + rand.N(assigned-lowest)
		listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil { // somebody listens
			continue
		}
		if err := listener.Close(); err != nil {
			t.Fatal(err)
		}
		return port
	}
}
