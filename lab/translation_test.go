package lab_test

import (
	"net/netip"
	"strings"
	"testing"
)

// A router between the hosts that translates addresses, tracks connections and drops
// packets of none (state INVALID, which a wrong checksum is, too).
const translation = `
table inet translation {
	chain forward {
		type filter hook forward priority filter;
		ct state invalid counter drop
	}
	chain leave {
		type nat hook postrouting priority srcnat;
		oifname "b" masquerade
	}
}`

// invalid returns how many packets the router dropped, as nft prints it.
func (b *bed) invalid(router string) string {
	b.t.Helper()
	text := b.exec(router, "nft", "list", "ruleset")
	_, after, _ := strings.Cut(text, "invalid counter packets ")
	count, _, found := strings.Cut(after, " ")
	if !found {
		b.t.Fatalf("no counter in %s", text)
	}
	return count
}

// Default marks of UDP and TCP pass a router that translates addresses: all data arrives,
// all marks are read, and connection tracking finds no packet invalid.
func TestAddressTranslation(t *testing.T) { addressTranslation(t, 2000) }

func addressTranslation(t *testing.T, datagrams int) {
	for family, address := range map[string]string{"ipv6": "fd77:0:0:2::2", "ipv4": "10.77.2.2"} {
		t.Run(family, func(t *testing.T) {
			t.Parallel() // it mostly waits
			to := netip.MustParseAddr(address)
			b := up(t, routed)
			b.exec("r", "nft", translation)
			d := b.probe("b", "destination", "r")
			s := b.probe("a", "source", "r")
			b.datagrams("a", "b", to, datagrams, 700)
			b.carry("a", "b", to, 20<<20).finish()
			marked, read := both(s, d)
			if count := b.invalid("r"); count != "0" {
				t.Errorf("%s packets are invalid", count)
			}
			if marked.Marked <= uint64(datagrams) || read.Packets != marked.Marked || read.Lost != 0 {
				t.Errorf("marked %+v, read %+v", marked, read)
			}
			t.Logf("%d packets marked, %s invalid", marked.Marked, b.invalid("r"))
		})
	}
}

// The router sees the outer header only, and the destination would restore packets with an
// address that was not translated: path validation notices, and nothing is marked.
func TestAddressTranslationOfOuterHeaders(t *testing.T) {
	t.Parallel() // it mostly waits
	translationOfOuterHeaders(t, "udp")
}

func translationOfOuterHeaders(t *testing.T, encodings ...string) {
	for _, encoding := range encodings {
		t.Run(encoding, func(t *testing.T) {
			t.Parallel() // it mostly waits
			b := up(t, routed)
			b.exec("r", "nft", translation)
			b.probe("b", "destination", "r")
			s := b.probe("a", "source", "r", validated, "--encoding", encoding)
			flow := b.open("a", "b", netip.MustParseAddrPort("10.77.2.2:9000"))
			sent := flow.used(s, encoding, "failed")
			flow.send(100, 32000)
			flow.receive(sent + 100)
			var marked sourceSummary
			if s.finish(&marked); marked.Marked != 0 {
				t.Errorf("%+v", marked)
			}
		})
	}
}
