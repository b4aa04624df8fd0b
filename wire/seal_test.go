package wire_test

import (
	"encoding/hex"
	"net/netip"
	"testing"

	"pillion.dev/wire"
)

// sealVector is the seal of the question below, computed by openssl dgst -sha256 -mac HMAC.
const sealVector = "2bdfb5c7006d3093" + "16f6a7a46d94b899e0fcb241ddd61b13"

// TestSeal: a seal holds for its key, direction, address and agent, and for what a destination
// program notes in an answer, but not in a question.
func TestSeal(t *testing.T) {
	key, other := wire.NewProbeKey([]byte("0123456789abcdef")), wire.NewProbeKey([]byte("0123456789abcdeF"))
	h2, h3 := netip.MustParseAddr("192.0.2.2"), netip.MustParseAddr("192.0.2.3")
	question := wire.Probe{Marked: true, Encoding: wire.UDPOption, Token: 1}
	datagram := key.Seal(question.Append(nil), h2, "h2")
	if len(datagram) != wire.ProbeLength+wire.SealLength || wire.SealNumber(datagram) != key.Number() {
		t.Fatalf("got %x", datagram)
	}
	if p, err := wire.ParseProbe(datagram); err != nil || p != question {
		t.Errorf("got %+v, %v", p, err)
	}
	read := question
	read.Read = wire.ProbeMarkRead
	noted := append(read.Append(nil), datagram[wire.ProbeLength:]...)
	answer := read
	answer.Answer = true
	replayed := append(answer.Append(nil), datagram[wire.ProbeLength:]...)
	good := key.Seal(answer.Append(nil), h2, "h2")
	unread := answer
	unread.Read = wire.ProbeUnread
	foreign := append([]byte(nil), datagram...)
	foreign[16] ^= 1 // of the token
	for _, row := range []struct {
		name     string
		key      wire.ProbeKey
		datagram []byte
		address  netip.Addr
		agent    string
		want     bool
	}{
		{"as sealed", key, datagram, h2, "h2", true},
		{"with padding", key, append(append([]byte(nil), datagram...), 0, 0), h2, "h2", true},
		{"its mark was read", key, noted, h2, "h2", true},
		{"mapped address", key, datagram, netip.AddrFrom16(h2.As16()), "h2", true},
		{"another key", other, datagram, h2, "h2", false},
		{"no key", wire.ProbeKey{}, datagram, h2, "h2", false},
		{"another address", key, datagram, h3, "h2", false},
		{"another agent", key, datagram, h2, "h3", false},
		{"another token", key, foreign, h2, "h2", false},
		{"question sent back as answer", key, replayed, h2, "h2", false},
		{"answer", key, good, h2, "h2", true},
		{"what the answer says is changed", key, append(unread.Append(nil), good[wire.ProbeLength:]...), h2, "h2", false},
		{"without a seal", key, question.Append(nil), h2, "h2", false},
		{"zeros", key, append(question.Append(nil), make([]byte, wire.SealLength)...), h2, "h2", false},
	} {
		t.Run(row.name, func(t *testing.T) {
			if got := row.key.Verify(row.datagram, row.address, row.agent); got != row.want {
				t.Errorf("got %t", got)
			}
		})
	}
	if got := hex.EncodeToString(datagram[wire.ProbeLength:]); got != sealVector {
		t.Errorf("got %s, want %s", got, sealVector)
	}
}

// FuzzSeal: nothing but what a key sealed is accepted.
func FuzzSeal(f *testing.F) {
	key, h2 := wire.NewProbeKey([]byte("0123456789abcdef")), netip.MustParseAddr("192.0.2.2")
	good := key.Seal(wire.Probe{Token: 1}.Append(nil), h2, "h2")
	f.Add(good)
	f.Add(good[:wire.ProbeLength+3])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		if !key.Verify(b, h2, "h2") {
			return
		}
		p, err := wire.ParseProbe(b)
		if err == nil && (p.Token != 1 || p.Answer || p.Marked) {
			t.Errorf("%x is accepted", b)
		}
	})
}
