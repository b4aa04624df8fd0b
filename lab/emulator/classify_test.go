package emulator

import (
	"encoding/binary"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strconv"
	"testing"
)

// The constants must equal those of wire/wire.h, which this room must not import.
func TestConstantsEqualThoseOfTheWire(t *testing.T) {
	header, err := os.ReadFile("../../wire/wire.h")
	if err != nil {
		t.Fatal(err)
	}
	standard, err := os.ReadFile("../../wire/standard.h")
	if err != nil {
		t.Fatal(err)
	}
	header = append(header, standard...)
	want := map[string]int{
		"WIRE_OPTION_PDM": optionPDM, "WIRE_OPTION_ALTMARK": optionMark,
		"WIRE_OPTION_IOAM": optionIOAM, "WIRE_OPTION_IOAM_HOPS": optionHops,
		"WIRE_OPTION_DELAY": optionDelay, "WIRE_OPTION_LOSS": optionLoss,
		"WIRE_PROTOCOL": markProtocol, "WIRE_UDP_PORT": markUDPPort,
		"WIRE_EXID": markExID, "WIRE_EXID_SPARSE": sparseExID, "WIRE_EXID_AGGREGATE": aggregateExID, "WIRE_AGGREGATE_FIELDS": aggregateFields,
		"WIRE_UDP_OPTION": udpOption,
	}
	for name, number := range want {
		found := regexp.MustCompile(`#define ` + name + ` (\S+)`).FindSubmatch(header)
		if found == nil {
			t.Errorf("%s is not in wire.h", name)
			continue
		}
		if got, err := strconv.ParseInt(string(found[1]), 0, 64); err != nil || int(got) != number {
			t.Errorf("%s is %s, here %d", name, found[1], number)
		}
	}
}

func ether(kind uint16, payload ...byte) []byte {
	frame := make([]byte, etherHeader, etherHeader+len(payload))
	binary.BigEndian.PutUint16(frame[12:], kind)
	return append(frame, payload...)
}

func ipv4(protocol byte, payload ...byte) []byte {
	header := make([]byte, 20)
	header[0], header[9] = 0x45, protocol
	copy(header[12:], []byte{10, 0, 0, 1, 10, 0, 0, 2})
	return append(header, payload...)
}

func ipv6(next byte, payload ...byte) []byte {
	header := make([]byte, 40)
	header[0], header[6], header[23], header[39] = 0x60, next, 1, 2
	return append(header, payload...)
}

func fragment(packet []byte, field uint16) []byte {
	binary.BigEndian.PutUint16(packet[6:], field)
	return packet
}

func TestClassify(t *testing.T) {
	var (
		udp      = []byte{0x04, 0xd2, 0x23, 0x28, 0, 8, 0, 0} // 1234 to 9000
		option   = append(append([]byte{0x04, 0xd2, 0x23, 0x28, 0, 9, 0, 0, 'x', 0}, 0, 0, 127, 12, 0x50, 0x4c), make([]byte, 8)...)
		segment  = append(append(append([]byte{0x04, 0xd2, 0x23, 0x28}, make([]byte, 8)...), 8<<4, 16, 0, 0, 0, 0, 0, 0, 253, 12, 0x50, 0x4c), make([]byte, 8)...)
		sparse   = append(append([]byte{0x04, 0xd2, 0x23, 0x28, 0, 8, 0, 0}, 0, 0, 127, 12, 0x50, 0x4d), make([]byte, 8)...)
		markedTo = []byte{0x04, 0xd2, 0xc4, 0x4d, 0, 8, 0, 0} // 1234 to 50253
		delay    = append([]byte{17, 2, optionDelay, 16}, make([]byte, 20)...)
		padded   = []byte{17, 0, 1, 4, 0, 0, 0, 0}
		loss     = []byte{58, 0, optionLoss, 4, 0, 0, 0, 0}
		hopDelay = append([]byte{60, 0, 1, 4, 0, 0, 0, 0}, delay...)
	)
	type result struct {
		data, marked bool
		protocol     uint8
		port         uint16
	}
	tests := map[string]struct {
		frame []byte
		want  result
	}{
		"short":                      {make([]byte, 13), result{}},
		"arp":                        {ether(0x0806, make([]byte, 28)...), result{}},
		"vlan":                       {ether(0x8100, make([]byte, 46)...), result{}},
		"ipv4 udp":                   {ether(etherIPv4, ipv4(17, udp...)...), result{true, false, 17, 9000}},
		"ipv4 tcp":                   {ether(etherIPv4, ipv4(6, udp...)...), result{true, false, 6, 9000}},
		"ipv4 icmp":                  {ether(etherIPv4, ipv4(1, udp...)...), result{true, false, 1, 0}},
		"ipv4 shim":                  {ether(etherIPv4, ipv4(253, udp...)...), result{true, true, 253, 0}},
		"ipv4 tunnel":                {ether(etherIPv4, ipv4(4, ipv4(17, udp...)...)...), result{true, false, 4, 0}},
		"ipv4 tunnel, shim inside":   {ether(etherIPv4, ipv4(4, ipv4(253)...)...), result{true, true, 4, 0}},
		"ipv4 marked by port":        {ether(etherIPv4, ipv4(17, markedTo...)...), result{true, true, 17, 50253}},
		"ipv4 udp option":            {ether(etherIPv4, ipv4(17, option...)...), result{true, true, 17, 9000}},
		"ipv4 udp option, sparse":    {ether(etherIPv4, ipv4(17, sparse...)...), result{true, true, 17, 9000}},
		"ipv6 udp option":            {ether(etherIPv6, ipv6(17, option...)...), result{true, true, 17, 9000}},
		"ipv4 tcp option":            {ether(etherIPv4, ipv4(6, segment...)...), result{true, true, 6, 9000}},
		"ipv6 tcp option":            {ether(etherIPv6, ipv6(6, segment...)...), result{true, true, 6, 9000}},
		"ipv4 tcp option cut":        {ether(etherIPv4, ipv4(6, segment[:31]...)...), result{true, false, 6, 9000}},
		"ipv4 udp option cut":        {ether(etherIPv4, ipv4(17, option[:23]...)...), result{true, false, 17, 9000}},
		"ipv4 first fragment":        {ether(etherIPv4, fragment(ipv4(17, markedTo...), 0x2000)...), result{true, false, 17, 0}},
		"ipv4 last fragment":         {ether(etherIPv4, fragment(ipv4(17, markedTo...), 0x0001)...), result{true, false, 17, 0}},
		"ipv4 do not fragment":       {ether(etherIPv4, fragment(ipv4(17, udp...), 0x4000)...), result{true, false, 17, 9000}},
		"ipv4 short":                 {ether(etherIPv4, ipv4(17)[:19]...), result{}},
		"ipv4 bad header length":     {ether(etherIPv4, append([]byte{0x41}, ipv4(17, udp...)[1:]...)...), result{true, false, 17, 0}},
		"ipv6 udp":                   {ether(etherIPv6, ipv6(17, udp...)...), result{true, false, 17, 9000}},
		"ipv6 marked by port":        {ether(etherIPv6, ipv6(17, markedTo...)...), result{true, true, 17, 50253}},
		"ipv6 delay":                 {ether(etherIPv6, ipv6(60, append(delay, udp...)...)...), result{true, true, 17, 9000}},
		"ipv6 delay after hop":       {ether(etherIPv6, ipv6(0, append(hopDelay, udp...)...)...), result{true, true, 17, 9000}},
		"ipv6 padding only":          {ether(etherIPv6, ipv6(60, append(padded, udp...)...)...), result{true, false, 17, 9000}},
		"ipv6 loss on echo":          {ether(etherIPv6, ipv6(60, append(loss, 128, 0)...)...), result{true, true, 58, 0}},
		"ipv6 options cut":           {ether(etherIPv6, ipv6(60, delay[:8]...)...), result{true, false, 60, 0}},
		"ipv6 fragment":              {ether(etherIPv6, ipv6(44, udp...)...), result{true, false, 44, 0}},
		"ipv6 neighbour":             {ether(etherIPv6, ipv6(58, 135, 0)...), result{}},
		"ipv6 listener after hop":    {ether(etherIPv6, ipv6(0, 58, 0, 5, 2, 0, 0, 1, 0, 143, 0)...), result{}},
		"ipv6 echo":                  {ether(etherIPv6, ipv6(58, 128, 0)...), result{true, false, 58, 0}},
		"ipv6 option in hop by hop":  {ether(etherIPv6, ipv6(0, append([]byte{17, 0, optionLoss, 4, 0, 0, 0, 0}, udp...)...)...), result{true, false, 17, 9000}},
		"ipv6 without upper header":  {ether(etherIPv6, ipv6(17)...), result{true, false, 17, 0}},
		"ipv6 header truncated":      {ether(etherIPv6, ipv6(17)[:39]...), result{}},
		"ipv6 empty message":         {ether(etherIPv6, ipv6(58)...), result{true, false, 58, 0}},
		"ipv6 hop by hop, then none": {ether(etherIPv6, ipv6(0)...), result{true, false, 0, 0}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			k, data := classify(test.frame)
			got := result{data, k.marked, k.protocol, k.destinationPort}
			if got != test.want && (data || test.want.data) {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
	k, _ := classify(tests["ipv4 udp"].frame)
	if f := k.flow(); f.Source != netip.MustParseAddr("10.0.0.1") || f.Destination != netip.MustParseAddr("10.0.0.2") {
		t.Errorf("got flow %+v", f)
	}
	k, _ = classify(tests["ipv6 udp"].frame)
	if f := k.flow(); f.Source != netip.MustParseAddr("::1") || f.Destination != netip.MustParseAddr("::2") {
		t.Errorf("got flow %+v", f)
	}
}

// TestClassifyOptions: the marks of standards.
func TestClassifyOptions(t *testing.T) {
	udp := []byte{0x04, 0xd2, 0x23, 0x28, 0, 8, 0, 0}
	trace := append([]byte{17, 2, 1, 0, optionHops, 18, 0, 0}, make([]byte, 16)...)
	for name, test := range map[string]struct {
		next   byte
		header []byte
		marked bool
	}{
		"edge to edge":                 {60, append([]byte{17, 2, 1, 0, optionIOAM, 18, 0, 3}, make([]byte, 16)...), true},
		"alternate marking":            {60, []byte{17, 0, optionMark, 4, 0, 0, 0, 0}, true},
		"metrics":                      {60, []byte{17, 1, optionPDM, 10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0}, true},
		"trace":                        {0, trace, true},
		"trace in destination options": {60, trace, false},
		"option without length":        {60, []byte{17, 0, 0, 0, 0, 0, 0, 0x1f}, false},
		"option behind the header":     {60, []byte{17, 0, 0x1f, 9, 0, 0, 0, 0}, false},
	} {
		t.Run(name, func(t *testing.T) {
			k, data := classify(ether(etherIPv6, ipv6(test.next, append(test.header, udp...)...)...))
			if !data || k.marked != test.marked || k.protocol != 17 || k.destinationPort != 9000 {
				t.Errorf("got %+v, %v", k, data)
			}
		})
	}
}

func FuzzClassify(f *testing.F) {
	f.Add(ether(etherIPv4, ipv4(253)...))
	f.Add(ether(etherIPv6, ipv6(0, 60, 0, 1, 4, 0, 0, 0, 0)...))
	f.Fuzz(func(t *testing.T, frame []byte) {
		before := slices.Clone(frame)
		classify(frame)
		if !slices.Equal(before, frame) {
			t.Error("classify changed the frame")
		}
	})
}
