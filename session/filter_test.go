package session

import (
	"net/netip"
	"strings"
	"testing"
)

func TestParseFilter(t *testing.T) {
	for _, row := range []struct {
		text string
		want Filter
		says string
	}{
		{text: "src=10.1.2.3/8 proto=tcp dport=80", want: Filter{Src: netip.MustParsePrefix("10.0.0.0/8"), Protocol: 6, HasProtocol: true, Dport: 80}},
		{text: "dst=2001:db8::1 sport=1", want: Filter{Dst: netip.MustParsePrefix("2001:db8::1/128"), Sport: 1}},
		{text: "proto=0", want: Filter{HasProtocol: true}},
		{text: "", says: "empty"},
		{text: "tcp", says: "not name=value"},
		{text: "proto=tcp proto=udp", says: "twice"},
		{text: "proto=06", says: "protocol"},
		{text: "proto=256", says: "protocol"},
		{text: "port=1", says: "no field"},
		{text: "dport=65536", says: "port"},
		{text: "src=::ffff:10.0.0.1", says: "neither"},
		{text: "src=fe80::1%eth0", says: "neither"},
		{text: "src=10.0.0.1 dst=::1", says: "different families"},
	} {
		t.Run(row.text, func(t *testing.T) {
			got, err := ParseFilter(row.text)
			if row.says == "" && (err != nil || got != row.want) || row.says != "" && (err == nil || !strings.Contains(err.Error(), row.says)) {
				t.Errorf("got %+v, %v; want %+v %q", got, err, row.want, row.says)
			}
		})
	}
}

func FuzzParseFilter(f *testing.F) {
	f.Add("src=10.0.0.0/8 dst=10.0.0.1 proto=tcp sport=1 dport=65535")
	f.Add("src=::/0 proto=255")
	f.Fuzz(func(t *testing.T, text string) {
		filter, err := ParseFilter(text)
		if err == nil {
			filter.meets(netip.MustParseAddr("10.0.0.1"))
		}
	})
}
