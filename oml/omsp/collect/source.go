package collect

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"pillion.dev/internal/quota"
)

// Scoped is a Backend that distinguishes who uses it.
type Scoped interface {
	Backend
	// For returns the backend for a source.
	For(source string) Backend
}

// UnknownUser is the source of a local connection whose user cannot be determined: its
// socket is closed already, or of another network namespace.
const UnknownUser = "unknown user"

// SourceOf returns who is at the far end of a connection: "user UID" on this host,
// otherwise "address ADDRESS", of IPv6 the /64.
func SourceOf(conn net.Conn) string {
	if under, ok := conn.(interface{ NetConn() net.Conn }); ok { // TLS
		conn = under.NetConn()
	}
	if unixConn, ok := conn.(*net.UnixConn); ok {
		return peerUser(unixConn)
	}
	remote, err := netip.ParseAddrPort(conn.RemoteAddr().String())
	if err != nil {
		return "address " + conn.RemoteAddr().String()
	}
	ip := remote.Addr().Unmap().WithZone("")
	if ip.IsLoopback() {
		local, err := netip.ParseAddrPort(conn.LocalAddr().String())
		if err != nil {
			return UnknownUser
		}
		return userOf(remote, local)
	}
	return "address " + quota.Source(ip)
}

func peerUser(conn *net.UnixConn) string {
	source := UnknownUser
	raw, err := conn.SyscallConn()
	if err != nil {
		return source
	}
	_ = raw.Control(func(fd uintptr) {
		if peer, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			source = fmt.Sprintf("user %d", peer.Uid)
		}
	})
	return source
}

// userOf finds the user of the socket at that end of an open connection.
func userOf(local, remote netip.AddrPort) string {
	for _, path := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		file, err := os.Open(path)
		if err != nil {
			continue
		}
		uid, found := findSocket(file, local, remote)
		file.Close()
		if found {
			return fmt.Sprintf("user %d", uid)
		}
	}
	return UnknownUser
}

// open are the states in which a socket with an inode has its user: TCP_ESTABLISHED, and
// TCP_FIN_WAIT1 and TCP_FIN_WAIT2 after shutdown.
var open = map[string]bool{"01": true, "04": true, "05": true}

// findSocket searches a table of the kernel (proc_net_tcp(5)).
func findSocket(table io.Reader, local, remote netip.AddrPort) (uid uint32, found bool) {
	lines := bufio.NewScanner(table)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		if len(words) < 10 || !open[words[3]] || words[9] == "0" {
			continue
		}
		one, ok1 := parseEndpoint(words[1])
		other, ok2 := parseEndpoint(words[2])
		if !ok1 || !ok2 || one != unmapped(local) || other != unmapped(remote) {
			continue
		}
		n, err := strconv.ParseUint(words[7], 10, 32)
		return uint32(n), err == nil
	}
	return 0, false
}

func unmapped(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr().Unmap().WithZone(""), a.Port())
}

// littleEndian is the byte order of the host.
var littleEndian = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

// parseEndpoint parses an address as the kernel prints it: 32-bit words in the byte order
// of the host.
func parseEndpoint(text string) (netip.AddrPort, bool) {
	address, portText, _ := strings.Cut(text, ":")
	bytes, err := hex.DecodeString(address)
	port, err2 := strconv.ParseUint(portText, 16, 16)
	if err != nil || err2 != nil || len(bytes)%4 != 0 {
		return netip.AddrPort{}, false
	}
	if littleEndian {
		for i := 0; i < len(bytes); i += 4 {
			bytes[i], bytes[i+1], bytes[i+2], bytes[i+3] = bytes[i+3], bytes[i+2], bytes[i+1], bytes[i]
		}
	}
	ip, ok := netip.AddrFromSlice(bytes)
	return netip.AddrPortFrom(ip.Unmap(), uint16(port)), ok
}

// enterSource counts a connection of a source; false refuses it.
func (c *Collector) enterSource(source string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sources[source] >= c.o.PerSource {
		return false
	}
	c.sources[source]++
	return true
}

func (c *Collector) leaveSource(source string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sources[source]--; c.sources[source] <= 0 {
		delete(c.sources, source)
	}
}

func (c *Collector) sourceError() error {
	return &quota.Error{Quota: "oml_connections", Limit: int64(c.o.PerSource), Unit: "connections of applications for each source", What: "connect an application", Later: true}
}
