package demo

import (
	"net"
	"testing"

	"pillion.dev/internal/free"
)

// TestListen: demonstrations at once have ports of their own, from the moment on that one is found.
func TestListen(t *testing.T) {
	from, ports := free.Port(t), map[int]bool{}
	for range 3 {
		listener, err := listen(from)
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
		port := listener.Addr().(*net.TCPAddr).Port
		if ports[port] || port < from {
			t.Errorf("port %d from %d, after %v", port, from, ports)
		}
		ports[port] = true
	}
}
