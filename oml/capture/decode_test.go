package capture

import (
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gopacket/gopacket/layers"

	"pillion.dev/measure"
)

func bytesOf(t testing.TB, text string) []byte {
	t.Helper()
	data, err := hex.DecodeString(strings.Join(strings.Fields(text), ""))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// rowText is a row without time, packet ID and device.
func rowText(schema *measure.Schema, sample measure.Sample) string {
	var text []string
	for i, v := range sample[3:] {
		switch n, numeric := v.Number(); {
		case v.IsNull():
			continue
		case numeric:
			text = append(text, fmt.Sprintf("%s=%g", schema.Fields[i+3].Name, n))
		default:
			text = append(text, schema.Fields[i+3].Name+"="+v.Text())
		}
	}
	return strings.TrimPrefix(schema.Name, "pcap_") + " " + strings.Join(text, " ")
}

// Headers by hand, from the RFCs.
const (
	macs   = "0200 0000 0002 0200 0000 0001"
	ip4    = "45b8 0036 1234 4000 40 11 abcd 0a000001 0a000002"
	udp    = "0035 9c40 0022 beef"
	ip4tcp = "4500 0030 0001 2000 3f 06 0102 0a000001 0a000002"
	tcp    = "0050 c350 00000001 00000002 60 12 7210 1c46 0000 0204 05b4"
	ip6    = "6ab12345 0010 11 40 20010db8000000000000000000000001 20010db8000000000000000000000002"
	udp6   = "1f90 0035 0010 0000 0102030405060708"
	// behind the EtherType: interface 3, Ethernet, outgoing
	sll2    = "0000 00000003 0001 04 06 0200000000010000"
	payload = "0000000000000000000000000000000000000000000000000000"
	rowEth4 = "ethernet src=02:00:00:00:00:01 dst=02:00:00:00:00:02 type=2048 bytes=%d"
)

var packets = map[string]struct {
	link   layers.LinkType
	text   string
	rows   []string
	reason string
}{
	"udp in IPv4": {layers.LinkTypeEthernet, macs + "0800" + ip4 + udp + payload, []string{
		fmt.Sprintf(rowEth4, 68),
		"ip version=4 src=10.0.0.1 dst=10.0.0.2 proto=17 tos=184 ttl=64 bytes=54 id=4660 fragment_offset=0 more_fragments=0 checksum=43981",
		"udp sport=53 dport=40000 bytes=34 checksum=48879"}, ""},
	"tcp, first fragment": {layers.LinkTypeRaw, ip4tcp + tcp + "00000000", []string{
		"ip version=4 src=10.0.0.1 dst=10.0.0.2 proto=6 tos=0 ttl=63 bytes=48 id=1 fragment_offset=0 more_fragments=1 checksum=258",
		"tcp sport=80 dport=50000 seq=1 ack=2 flags=SA window=29200 checksum=7238 urgent=0 bytes=28 data_bytes=4"}, ""},
	"later fragment": {layers.LinkTypeRaw, strings.Replace(ip4, "4000 40", "0010 40", 1) + udp + payload, []string{
		"ip version=4 src=10.0.0.1 dst=10.0.0.2 proto=17 tos=184 ttl=64 bytes=54 id=4660 fragment_offset=128 more_fragments=0 checksum=43981"}, ""},
	"udp in IPv6, tagged twice": {layers.LinkTypeEthernet, macs + "88a8 0064 8100 00c8 86dd" + ip6 + udp6, []string{
		"ethernet src=02:00:00:00:00:01 dst=02:00:00:00:00:02 type=34525 vlan=100 bytes=78",
		"ip version=6 src=2001:db8::1 dst=2001:db8::2 proto=17 tos=171 ttl=64 bytes=56 fragment_offset=0 more_fragments=0 flow_label=74565",
		"udp sport=8080 dport=53 bytes=16 checksum=0"}, ""},
	"extension headers": {layers.LinkTypeRaw,
		strings.Replace(ip6, "0010 11", "0020 3c", 1) + "2c00 010400000000" + "1100 0001 0000002a" + udp6, []string{
			"ip version=6 src=2001:db8::1 dst=2001:db8::2 proto=17 tos=171 ttl=64 bytes=72 id=42 fragment_offset=0 more_fragments=1 flow_label=74565",
			"udp sport=8080 dport=53 bytes=16 checksum=0"}, ""},
	"radiotap with data": {layers.LinkTypeIEEE80211Radio,
		"0000 1000 6e000000 10 6c 6c09 c000 d6 a1" + // flags (FCS at the end), rate, channel, signal, noise
			"0801 0000 020000000002 020000000001 020000000003 1000" + "aaaa03 000000 0800" + ip4 + udp + payload + "00000000", []string{
			"radiotap rate_mbps=54 freq_mhz=2412 signal_dbm=-42 noise_dbm=-95 bytes=106",
			"ip version=4 src=10.0.0.1 dst=10.0.0.2 proto=17 tos=184 ttl=64 bytes=54 id=4660 fragment_offset=0 more_fragments=0 checksum=43981",
			"udp sport=53 dport=40000 bytes=34 checksum=48879"}, ""},
	"arp":                          {layers.LinkTypeEthernet, macs + "0806" + payload + "00000000", []string{strings.Replace(fmt.Sprintf(rowEth4, 44), "2048", "2054", 1)}, ""},
	"cut in tcp":                   {layers.LinkTypeRaw, ip4tcp + "0050 c350 00000001", []string{"ip version=4 src=10.0.0.1 dst=10.0.0.2 proto=6 tos=0 ttl=63 bytes=48 id=1 fragment_offset=0 more_fragments=1 checksum=258"}, reasonShort},
	"cut in ethernet":              {layers.LinkTypeEthernet, "0200 0000", nil, reasonShort},
	"nothing":                      {layers.LinkTypeRaw, "", nil, reasonShort},
	"IP of version 7":              {layers.LinkTypeRaw, "75" + ip4[2:], nil, reasonMalformed},
	"header too small":             {layers.LinkTypeRaw, "43" + ip4[2:] + udp + payload, nil, reasonMalformed},
	"unknown link":                 {layers.LinkTypeFDDI, macs, nil, reasonLink},
	"BSD loopback":                 {layers.LinkTypeNull, "02000000" + ip4[:40], nil, reasonShort},
	"Linux, any device, version 2": {layers.LinkTypeLinuxSLL2, "86dd" + sll2 + ip6 + udp6, []string{"ip version=6 src=2001:db8::1 dst=2001:db8::2 proto=17 tos=171 ttl=64 bytes=56 fragment_offset=0 more_fragments=0 flow_label=74565", "udp sport=8080 dport=53 bytes=16 checksum=0"}, ""},
	"ARP on any device":            {layers.LinkTypeLinuxSLL2, "0806" + sll2 + payload, nil, ""},
	"cut in version 2":             {layers.LinkTypeLinuxSLL2, "0800" + sll2[:4], nil, reasonShort},
	"Linux, any device":            {layers.LinkTypeLinuxSLL, "0000 0001 0006 020000000001 0000 86dd" + ip6 + udp6, []string{"ip version=6 src=2001:db8::1 dst=2001:db8::2 proto=17 tos=171 ttl=64 bytes=56 fragment_offset=0 more_fragments=0 flow_label=74565", "udp sport=8080 dport=53 bytes=16 checksum=0"}, ""},
}

func TestDecode(t *testing.T) {
	for name, test := range packets {
		t.Run(name, func(t *testing.T) {
			var rows []string
			ids := map[uint64]bool{}
			d := decoder{device: "eth0", sink: func(schema *measure.Schema, sample measure.Sample) {
				if len(sample) != len(schema.Fields) {
					t.Errorf("%s: %d values of %d", schema.Name, len(sample), len(schema.Fields))
				}
				for i, v := range sample {
					if !v.IsNull() && v.Type() != schema.Fields[i].Type {
						t.Errorf("%s.%s: a %v", schema.Name, schema.Fields[i].Name, v.Type())
					}
				}
				rows = append(rows, rowText(schema, sample))
				ids[sample[1].Uint64()] = true
			}}
			data := bytesOf(t, test.text)
			o := d.decode(Packet{Time: time.Unix(1, 0), Link: test.link, Data: data, Length: len(data)})
			if got, want := strings.Join(rows, "\n"), strings.Join(test.rows, "\n"); got != want {
				t.Errorf("rows\n%s\nwant\n%s", got, want)
			}
			if o.reason != test.reason || o.rows != len(rows) || len(rows) > 0 && len(ids) != 1 {
				t.Errorf("%+v, %d ids", o, len(ids))
			}
		})
	}
}

// FuzzDecode: for any packet, rows match their schemas and the counters add up.
func FuzzDecode(f *testing.F) {
	for _, test := range packets {
		f.Add(uint16(test.link), bytesOf(f, test.text))
	}
	f.Fuzz(func(t *testing.T, link uint16, data []byte) {
		var tally Tally
		rows := 0
		d := decoder{sink: func(schema *measure.Schema, sample measure.Sample) {
			rows++
			for i, v := range sample {
				if len(sample) != len(schema.Fields) || !v.IsNull() && v.Type() != schema.Fields[i].Type {
					t.Fatalf("%s: %v", schema.Name, sample)
				}
			}
		}}
		tally.count(d.decode(Packet{Link: layers.LinkType(link), Data: data, Length: len(data)}))
		partial, _ := counted(tally.Partial)
		skipped, _ := counted(tally.Skipped)
		if tally.Seen != tally.Decoded+partial+skipped || skipped == 1 && rows > 0 {
			t.Fatalf("%v, %d rows", tally, rows)
		}
	})
}
