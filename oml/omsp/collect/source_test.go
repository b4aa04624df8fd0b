package collect

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pillion.dev/internal/quota"
)

// TestSourceOfLocalUser: the user at the far end of a local connection is found, over TCP
// of either family and over a UNIX socket.
func TestSourceOfLocalUser(t *testing.T) {
	want := fmt.Sprintf("user %d", os.Getuid())
	for _, row := range []struct{ network, address string }{
		{"tcp", "127.0.0.1:0"}, {"tcp", "[::1]:0"}, {"unix", filepath.Join(t.TempDir(), "socket")},
	} {
		listener, err := net.Listen(row.network, row.address)
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
		client, err := net.Dial(row.network, listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		server, err := listener.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer server.Close()
		if got := SourceOf(server); got != want {
			t.Errorf("%s %s: %q, want %q", row.network, row.address, got, want)
		}
		if half, ok := client.(*net.TCPConn); ok {
			half.CloseWrite()
			if got := SourceOf(server); got != want {
				t.Errorf("%s %s: half closed: %q, want %q", row.network, row.address, got, want)
			}
			client.Close()
			within(t, "the user of a closed socket is unknown", func() bool { return SourceOf(server) == UnknownUser })
		}
	}
}

// TestFindSocket: only an open socket with an owner counts.
func TestFindSocket(t *testing.T) {
	line := func(local, remote, state, uid, inode string) string {
		return fmt.Sprintf("  0: %s %s %s 00000000:00000000 00:00000000 00000000 %s 0 %s 1 0 20 4 30 10 -1\n", local, remote, state, uid, inode)
	}
	local, remote := netip.MustParseAddrPort("127.0.0.1:8080"), netip.MustParseAddrPort("[::ffff:127.0.0.1]:3003")
	for name, row := range map[string]struct {
		table string
		want  string
	}{
		"found":            {line("0100007F:1F90", "0100007F:0BBB", "01", "1000", "77"), "1000 true"},
		"mapped":           {line("0000000000000000FFFF00000100007F:1F90", "0000000000000000FFFF00000100007F:0BBB", "01", "1001", "77"), "1001 true"},
		"closed":           {line("0100007F:1F90", "0100007F:0BBB", "06", "0", "0"), "0 false"},
		"half closed":      {line("0100007F:1F90", "0100007F:0BBB", "05", "1000", "77"), "1000 true"},
		"closed and kept":  {line("0100007F:1F90", "0100007F:0BBB", "05", "0", "0"), "0 false"},
		"orphan":           {line("0100007F:1F90", "0100007F:0BBB", "01", "0", "0"), "0 false"},
		"other port":       {line("0100007F:1F91", "0100007F:0BBB", "01", "1000", "77"), "0 false"},
		"the other end":    {line("0100007F:0BBB", "0100007F:1F90", "01", "1000", "77"), "0 false"},
		"garbage":          {"x\n" + strings.Repeat("z ", 20) + "\n", "0 false"},
		"garbage, then it": {"sl\n" + line("zz:1", ":", "01", "1", "2") + line("0100007F:1F90", "0100007F:0BBB", "01", "5", "77"), "5 true"},
	} {
		if uid, found := findSocket(strings.NewReader(row.table), local, remote); littleEndian && fmt.Sprint(uid, found) != row.want {
			t.Errorf("%s: %d, %v, want %s", name, uid, found, row.want)
		}
	}
}

// FuzzFindSocket: any table can be read.
func FuzzFindSocket(f *testing.F) {
	f.Add("  0: 0100007F:1F90 0100007F:0BBB 01 00000000:00000000 00:00000000 00000000 1000 0 7 1\n")
	f.Fuzz(func(t *testing.T, text string) {
		findSocket(strings.NewReader(text), netip.MustParseAddrPort("127.0.0.1:8080"), netip.MustParseAddrPort("127.0.0.1:3003"))
	})
}

// TestConnectionsPerSource: one source cannot take all connections, and the refusal is
// reported.
func TestConnectionsPerSource(t *testing.T) {
	refused := make(chan error, 100)
	s := begin(t, Options{PerSource: 3, Refused: func(source string, err error) { refused <- err }}, "")
	for range 3 {
		conn, err := net.Dial("tcp", s.address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	within(t, "three are connected", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.sources[fmt.Sprintf("user %d", os.Getuid())] == 3
	})
	extra, err := net.Dial("tcp", s.address)
	if err != nil {
		t.Fatal(err)
	}
	defer extra.Close()
	if n, err := extra.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Errorf("the fourth reads %d bytes, %v", n, err)
	}
	if err := <-refused; quota.Of(err) == nil {
		t.Errorf("reported %v", err)
	}
}
