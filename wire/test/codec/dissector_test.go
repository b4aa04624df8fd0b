package codec_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pillion.dev/wire"
	"pillion.dev/wire/test/codec"
)

// A captured packet may have been cut by the capture.
type captured struct {
	bytes  []byte
	length int // on the wire
}

// dissect returns for each packet the values of the named fields, the last
// where a field occurs more than once, as tshark with pillion.lua shows them.
func dissect(t *testing.T, packets []captured, when time.Time, port uint16, fields ...string) []map[string]string {
	t.Helper()
	tshark, err := exec.LookPath("tshark")
	if err != nil {
		missing(t, err)
	}
	home := t.TempDir() // without the user's preferences
	file := filepath.Join(home, "vectors.pcap")
	if err := os.WriteFile(file, pcap(packets, when), 0o644); err != nil {
		t.Fatal(err)
	}
	fields = append(fields, "_ws.lua.error")
	args := []string{"-r", file, "-X", "lua_script:../../pillion.lua", "-n", "-o", "udp.check_checksum:TRUE", "-o", fmt.Sprint("pillion.port:", port), "-T", "fields", "-E", "occurrence=l"}
	for _, f := range fields {
		args = append(args, "-e", f)
	}
	var stderr bytes.Buffer
	run := exec.Command(tshark, args...)
	run.Env = append(os.Environ(), "HOME="+home, "XDG_CONFIG_HOME="+home, "TZ=UTC", "LC_ALL=C")
	run.Stderr = &stderr
	out, err := run.Output()
	if err != nil || strings.Contains(stderr.String(), "Lua") {
		t.Fatalf("run tshark: %v\n%s", err, stderr.String())
	}
	lines := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	if len(lines) != len(packets) {
		t.Fatalf("tshark shows %d packets of %d", len(lines), len(packets))
	}
	all := make([]map[string]string, len(lines))
	for i, line := range lines {
		all[i] = map[string]string{}
		for j, value := range strings.Split(line, "\t") {
			all[i][fields[j]] = value
		}
		if e := all[i]["_ws.lua.error"]; e != "" {
			t.Errorf("packet %x: %s", packets[i].bytes, e)
		}
	}
	return all
}

// pcap returns a capture file of raw IP packets with nanosecond times.
func pcap(packets []captured, when time.Time) []byte {
	le := binary.LittleEndian
	b := le.AppendUint32(nil, 0xa1b23c4d)
	b = le.AppendUint32(b, 2|4<<16) // version 2.4
	b = append(b, make([]byte, 8)...)
	b = le.AppendUint32(b, 65535)
	b = le.AppendUint32(b, 101) // LINKTYPE_RAW
	for _, p := range packets {
		b = le.AppendUint32(b, uint32(when.Unix()))
		b = le.AppendUint32(b, uint32(when.Nanosecond()))
		b = le.AppendUint32(b, uint32(len(p.bytes)))
		b = le.AppendUint32(b, uint32(p.length))
		b = append(b, p.bytes...)
	}
	return b
}

func whole(b []byte) captured { return captured{b, len(b)} }

// markFields are all fields that the dissector shows of a mark.
var markFields = []string{
	"pillion.encoding", "pillion.modules", "pillion.sent", "pillion.received",
	"pillion.sequence", "pillion.single", "pillion.sparse", "pillion.tag", "pillion.next", "pillion.malformed",
}

// fieldsOf returns what the dissector must show of a vector's mark.
func fieldsOf(v codec.Vector, when time.Time) map[string]string {
	const layout = "Jan _2, 2006 15:04:05.000000000 MST"
	next := nextOf(v.Original)
	if v.Encoding == wire.UDP {
		next = 4
	}
	want := map[string]string{
		"pillion.encoding": v.Encoding.String(),
		"pillion.modules":  v.Mark.Modules.String(),
		"pillion.next":     strconv.Itoa(int(next)),
	}
	if codec.HasBlocks(v.Encoding) {
		want["pillion.modules"] = "loss"
	}
	if codec.HasTicks(v.Encoding) {
		want["pillion.next"] = "" // nothing follows
	}
	if v.Mark.Modules&wire.Delay != 0 {
		want["pillion.sent"] = v.Mark.SentNear(when).Format(layout)
		if v.Mark.Received != 0 {
			want["pillion.received"] = v.Mark.Received.Near(when).Format(layout)
		}
	}
	if v.Mark.Modules&wire.Loss != 0 && v.Encoding != wire.PDM { // whose fields Wireshark shows by itself
		want["pillion.sequence"] = strconv.Itoa(int(v.Mark.Sequence))
		want["pillion.single"] = map[bool]string{true: "1", false: "0"}[v.Mark.Single]
	}
	if v.Mark.Sparse {
		want["pillion.sparse"] = "1"
	}
	if v.Mark.Tagged {
		want["pillion.tag"] = fmt.Sprintf("0x%08x", v.Mark.Tag)
	}
	return want
}

// nextOf returns the protocol that a mark in this packet would push back.
func nextOf(packet []byte) uint8 {
	if packet[0]>>4 == 4 {
		return packet[9]
	}
	if packet[6] == 0 {
		return packet[40]
	}
	return packet[6]
}

// TestDissector compares every field of every vector, seen from times before,
// at and long after the end of era 0.
func TestDissector(t *testing.T) {
	byPort := map[uint16][]codec.Vector{}
	for _, v := range load(t) {
		byPort[v.Port] = append(byPort[v.Port], v)
	}
	for _, when := range []string{"2026-11-21T10:00:00Z", "2036-02-07T06:28:15.999999999Z", "2036-02-07T06:28:16Z", "2100-01-01T00:00:00Z"} {
		for port, group := range byPort {
			t.Run(fmt.Sprint(when, " port ", port), func(t *testing.T) {
				var packets []captured
				for _, v := range group {
					packets = append(packets, whole(v.Marked))
				}
				got := dissect(t, packets, at(t, when), port, markFields...)
				for i, v := range group {
					want := fieldsOf(v, at(t, when))
					for _, f := range markFields {
						if got[i][f] != want[f] {
							t.Errorf("%s: %s is %q, want %q", v.Name, f, got[i][f], want[f])
						}
					}
				}
			})
		}
	}
}

// TestDissectorContinues checks that what follows a mark is dissected as in the unmarked
// packet.
func TestDissectorContinues(t *testing.T) {
	fields := []string{
		"tcp.srcport", "tcp.seq_raw", "tcp.len", "udp.srcport", "udp.dstport", "udp.length",
		"icmp.type", "icmp.ident", "icmpv6.type", "icmpv6.echo.identifier", "data.data",
	}
	var plain, marked []captured
	var all []codec.Vector
	for _, v := range load(t) {
		if v.Port == wire.Port {
			all = append(all, v)
			plain, marked = append(plain, whole(v.Original)), append(marked, whole(v.Marked))
		}
	}
	when := at(t, "2026-11-21T10:00:00Z")
	want, got := dissect(t, plain, when, wire.Port, fields...), dissect(t, marked, when, wire.Port, fields...)
	seen := map[string]bool{}
	for i, v := range all {
		if v.Encoding == wire.UDP && nextOf(v.Original) != 17 {
			got[i]["udp.srcport"], got[i]["udp.dstport"], got[i]["udp.length"] = "", "", "" // the outer header's
		}
		for _, f := range fields {
			seen[f] = seen[f] || want[i][f] != ""
			if got[i][f] != want[i][f] {
				t.Errorf("%s: %s is %q, want %q", v.Name, f, got[i][f], want[i][f])
			}
		}
	}
	for _, f := range fields {
		if !seen[f] {
			t.Errorf("no vector has %s", f)
		}
	}
}

// named returns the marked packet of a vector.
func named(t *testing.T, name string) []byte {
	t.Helper()
	all := load(t)
	i := slices.IndexFunc(all, func(v codec.Vector) bool { return v.Name == name })
	if i < 0 {
		t.Fatalf("no vector is named %q", name)
	}
	return all[i].Marked
}

func TestDissectorMalformed(t *testing.T) {
	native, shim, ipip, udp4 := marked(t, wire.Native), marked(t, wire.Shim), marked(t, wire.IPIP), marked(t, wire.UDP)
	option, segment := marked(t, wire.UDPOption), marked(t, wire.TCPOption)
	taggedLoss, taggedSparse := named(t, "native tagged loss ipv6 udp"), named(t, "native tagged sparse ipv6 udp")
	tests := []struct {
		name   string
		packet []byte
		want   string // encoding of the malformed mark, "" for no mark
	}{
		{"native, other option", edit(native, 42, 0x3f), ""},
		{"native, option length", edit(native, 43, 15), "native"},
		{"native, header length", edit(native, 41, 2), "native"},
		{"native, header longer than the packet", edit(native, 41, 255), "native"},
		{"native, hop-by-hop after the mark", edit(native, 40, 0), "native"},
		{"native, second option", edit(native, 60, 0x1f), "native"},
		{"native, padding", edit(native, 71, 1), "native"},
		{"native, pad length", edit(native, 67, 3), "native"},
		{"shim, other type", edit(shim, 20, 4), ""},
		{"shim, data length", edit(shim, 22, 255), "shim"},
		{"shim, no data", header{}.with(253, []byte{2, 6, 4, 0}), "shim"},
		{"shim, half a head", header{}.with(253, []byte{2, 6}), "shim"},
		{"shim, nothing", header{}.with(253, nil), ""},
		{"ipip, data length", edit(ipip, 42, 0), "ipip"},
		{"udp-option, kind", edit(option, 36, 126), ""},
		{"udp-option, other experiment", edit(option, 39, 0), ""},
		{"udp-option, option length", edit(option, 37, 10), "udp-option"},
		{"udp-option, checksum", edit(option, 35, option[35]+1), "udp-option"},
		{"tcp-option, kind", edit(segment, 40, 254), ""},
		{"tcp-option, option length", edit(segment, 41, 10), ""},
		{"tcp-option, other experiment", edit(segment, 43, 0), ""},
		{"tcp-option, data offset", edit(segment, 32, 7<<4), ""},
		{"tcp-option, neither number nor time", edit(segment, 44, make([]byte, 8)...), "tcp-option"},
		{"native, tagged, option length", edit(tagged(t, wire.Native), 61, 7), "native"},
		{"native, tagged, padding", edit(tagged(t, wire.Native), 71, 1), "native"},
		{"native, tagged loss, padding", edit(taggedLoss, 55, 1), "native"},
		{"native, tagged loss, option length", edit(taggedLoss, 43, 4), "native"},
		{"native, tagged sparse, flags", edit(taggedSparse, 66, 12), "native"},
		{"native, tagged sparse, padding", edit(taggedSparse, 71, 1), "native"},
		{"shim, tagged delay", edit(shim, 20, 9), ""},
		{"shim, tagged, data length", edit(tagged(t, wire.Shim), 22, 20), "shim"},
		{"shim, tag missing", edit(shim, 20, 11), "shim"},
		{"udp-option, tag missing", edit(option, 37, 16), "udp-option"},
		{"udp-option, tagged, option length", edit(tagged(t, wire.UDPOption), 37, 12), "udp-option"},
		{"udp-option, tagged, checksum", edit(tagged(t, wire.UDPOption), 51, 0, 0, 0), "udp-option"},
		{"udp-option, tagged, no number", resum(edit(tagged(t, wire.UDPOption), 40, 0, 0, 0, 0)), "udp-option"},
		{"tcp-option, tagged, option length", edit(tagged(t, wire.TCPOption), 41, 12), ""},
		{"tcp-option, tagged, kind", edit(tagged(t, wire.TCPOption), 40, 254), ""},
		{"tcp-option, tagged, no number", edit(tagged(t, wire.TCPOption), 44, 0, 0, 0, 0), "tcp-option"},
		{"udp, data length", edit(udp4, 30, 0), "udp"},
		{"udp, next protocol", edit(udp4, 29, 17), "udp"},
		{"udp, other type", edit(udp4, 28, 9), ""},
		{"udp, nothing", header{}.with(17, []byte{0xc0, 0, 0xc4, 0x4d, 0, 8, 0, 0}), ""},
		{"udp, to another port", header{}.with(17, append([]byte{0xc4, 0x4d, 0x1f, 0x90, 0, 8 + 8, 0, 0}, codec.AppendShim(nil, 4, markOf(wire.UDP, wire.Loss))...)), ""},
	}
	packets := make([]captured, len(tests))
	for i, test := range tests {
		packets[i] = whole(test.packet)
	}
	all := dissect(t, packets, at(t, "2026-11-21T10:00:00Z"), wire.Port, markFields...)
	for i, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := all[i]
			if got["pillion.encoding"] != test.want || (got["pillion.malformed"] != "") != (test.want != "") {
				t.Errorf("got %v", got)
			}
			for _, f := range []string{"pillion.modules", "pillion.sent", "pillion.sequence", "pillion.tag", "pillion.next"} {
				if got[f] != "" {
					t.Errorf("a malformed mark has %s %s", f, got[f])
				}
			}
		})
	}
}

// TestDissectorCut truncates packets at every length, in the capture and on the wire: a
// mark shows if and only if it is complete.
func TestDissectorCut(t *testing.T) {
	var packets []captured
	var shows []bool
	add := func(whole []byte, end int) {
		for n := 1; n <= len(whole); n++ {
			packets = append(packets, captured{whole[:n], len(whole)}, captured{whole[:n], n})
			shows = append(shows, n >= end, n >= end)
		}
	}
	for e, end := range map[wire.Encoding]int{wire.Native: 72, wire.Shim: 44, wire.IPIP: 64, wire.UDP: 52, wire.UDPOption: 48, wire.TCPOption: 52} {
		add(marked(t, e), end)
		if e != wire.Native { // there a tag takes the place of padding
			end += 4
		}
		add(tagged(t, e), end)
	}
	got := dissect(t, packets, at(t, "2026-11-21T10:00:00Z"), wire.Port, markFields...)
	for i, want := range shows {
		if shown := got[i]["pillion.modules"] != ""; shown != want || shown && got[i]["pillion.malformed"] != "" {
			t.Errorf("%d bytes of %x, %d on the wire: %v", len(packets[i].bytes), packets[i].bytes, packets[i].length, got[i])
		}
	}
}
