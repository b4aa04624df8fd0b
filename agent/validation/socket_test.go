package validation

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"
)

// FuzzExtendedError: what the kernel says about an ICMP error never fails.
func FuzzExtendedError(f *testing.F) {
	four := make([]byte, extendedErrorLength+16)
	four[4], four[5], four[6] = unix.SO_EE_ORIGIN_ICMP, 3, 3
	binary.NativeEndian.PutUint16(four[extendedErrorLength:], unix.AF_INET)
	copy(four[extendedErrorLength+4:], []byte{192, 0, 2, 1})
	e, sender, ok := parseExtendedError(four)
	if !ok || !e.isPortUnreachable() || sender != netip.MustParseAddr("192.0.2.1") {
		f.Fatalf("%+v from %v, %v", e, sender, ok)
	}
	four[6] = 1
	if e, _, _ := parseExtendedError(four); e.isPortUnreachable() {
		f.Fatal("host unreachable is taken for port unreachable")
	}
	f.Add(four)
	f.Add(four[:20])
	f.Fuzz(func(t *testing.T, b []byte) {
		if e, _, ok := parseExtendedError(b); !ok && e.isPortUnreachable() {
			t.Errorf("%x", b)
		}
	})
}
