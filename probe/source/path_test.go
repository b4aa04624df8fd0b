package source

import (
	"encoding/binary"
	"testing"

	"pillion.dev/wire"
)

// tooBig is a router's error about a packet to dst: RFC 1191, RFC 4443.
func tooBig(quoted []byte, mtu uint16) []byte {
	icmp := make([]byte, 8, 8+len(quoted))
	binary.BigEndian.PutUint16(icmp[6:], mtu)
	icmp = append(icmp, quoted...)
	if quoted[0]>>4 == 6 {
		icmp[0] = 2
		return ipv6("2001:db8::99", "2001:db8::1", 58, icmp)
	}
	icmp[0], icmp[1] = 3, 4
	return ipv4("203.0.113.9", "192.0.2.1", 1, icmp)
}

func TestPathMTUIsLearned(t *testing.T) {
	make4 := func(dst string, n int) []byte {
		return ipv4("192.0.2.1", dst, 17, ported(1, 2, make([]byte, n-28)))
	}
	make6 := func(dst string, n int) []byte {
		return ipv6("2001:db8::1", dst, 17, ported(1, 2, make([]byte, n-48)))
	}
	rows := []struct {
		name   string
		icmp   []byte
		packet []byte
		want   string
		before string // outcome before the error arrived
	}{
		{"IPv6 too big", tooBig(make6("2001:db8::2", 100), 1400), make6("2001:db8::2", 1390), "mtu", "marked"},
		{"IPv6 just fits", tooBig(make6("2001:db8::2", 100), 1400), make6("2001:db8::2", 1368), "marked", "marked"},
		{"IPv6 elsewhere", tooBig(make6("2001:db8::2", 100), 1400), make6("2001:db8::3", 1390), "marked", "marked"},
		{"IPv4 too big", tooBig(make4("198.51.100.2", 100), 1400), make4("198.51.100.2", 1390), "mtu", "marked"},
		{"IPv4 just fits", tooBig(make4("198.51.100.2", 100), 1400), make4("198.51.100.2", 1348), "marked", "marked"},
		{"no less than the device", tooBig(make4("198.51.100.2", 100), 1500), make4("198.51.100.2", 1448), "marked", "marked"},
		{"cut off", tooBig(make6("2001:db8::2", 100), 1400)[:60], make6("2001:db8::2", 1390), "marked", "marked"},
		{"another error", ipv6("2001:db8::99", "2001:db8::1", 58, append([]byte{1, 0, 0, 0, 0, 0, 5, 0x78}, make6("2001:db8::2", 100)...)),
			make6("2001:db8::2", 1390), "marked", "marked"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			s := open(t, all(wire.UDP, wire.Delay|wire.Loss))
			if got := s.outcome(t, row.packet); got != row.before {
				t.Fatalf("before: %s, want %s", got, row.before)
			}
			if out := run(t, s.objects.SourceReturn, row.icmp); string(out) != string(row.icmp) {
				t.Errorf("the error itself was changed")
			}
			if got := s.outcome(t, row.packet); got != row.want {
				t.Errorf("after: %s, want %s", got, row.want)
			}
			if err := s.forgetPaths(1<<63, 1); err != nil {
				t.Fatal(err)
			}
			if got := s.outcome(t, row.packet); got != row.before {
				t.Errorf("forgotten: %s, want %s", got, row.before)
			}
		})
	}
}
