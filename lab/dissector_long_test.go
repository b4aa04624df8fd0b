//go:build long

package lab_test

import (
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"pillion.dev/wire"
)

// TestLongNoMalformedPacket: Wireshark calls no packet malformed that carries a mark of any encoding, with a tag or without, in
// datagrams of several sizes and in connections, behind a router that fills traces; and Pillion's dissector finds every mark.
func TestLongNoMalformedPacket(t *testing.T) {
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte("000102030405060708090a0b0c0d0e0f\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	b := up(t, `
hosts: {a: {}, r: {forward: true, ioam: 0x101}, b: {}}
links:
  - {ends: [a, r], emulate: {delay: 1ms}}
  - {ends: [r, b], emulate: {delay: 1ms}}
`)
	// A free port may not be that of the encoding udp.
	b.exec("b", "sysctl", "-q", "-w", "net.ipv4.ip_local_reserved_ports="+strconv.Itoa(wire.Port))
	for name, options := range map[string][]string{"plain": nil, "tagged": {"--key-file", key}} {
		d := b.probe("b", "destination", "r", options...)
		for _, encoding := range wire.Encodings() {
			t.Run(name+" "+encoding.String(), func(t *testing.T) {
				c := b.capture(t, "b", "r")
				args := []string{"--encoding", encoding.String(), "--stamp-every", "4"}
				if !encoding.Carries().Allows(wire.Delay) {
					args = append(args, "--modules", "loss")
				}
				s := b.probe("a", "source", "r", append(args, options...)...)
				for _, to := range []netip.Addr{netip.MustParseAddr("10.77.2.2"), netip.MustParseAddr("fd77:0:0:2::2")} {
					for _, size := range []int{1, 8, 57, 1200, 1300} {
						b.datagrams("a", "b", to, 20, size)
					}
					b.carry("a", "b", to, 1<<20).finish()
				}
				b.settled("r-b", "r", 1)
				var marked sourceSummary
				s.finish(&marked)
				truth := b.settled("r-b", "r", 1)
				found := c.dissected()
				t.Logf("bar: %d packets marked, dissected %v", marked.Marked, found)
				if marked.Marked == 0 || len(found) != 1 || uint64(found[encoding.String()]) < marked.Marked {
					t.Errorf("%d packets are marked, the dissector shows %v; on the link %+v", marked.Marked, found, truth.Marked)
				}
			})
		}
		d.end(unix.SIGINT)
	}
}
