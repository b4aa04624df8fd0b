package codec_test

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"pillion.dev/wire"
	"pillion.dev/wire/test/codec"
)

// standardFields are what the dissector shows of the marks of standards, and what Wireshark
// shows of them by itself.
var standardFields = append(slices.Clone(markFields),
	"pillion.ingress", "pillion.module.id", "pillion.module.data", "pillion.ioam.namespace", "pillion.ioam.sequence64",
	"pillion.altmark.flow", "pillion.altmark.loss", "pillion.altmark.delay",
	"pillion.dex.type", "pillion.dex.flow", "pillion.dex.sequence",
	"ipv6.opt.pdm.psn_this_pkt", "ipv6.opt.pdm.psn_last_recv", "ipv6.opt.pdm.scale_dtlr", "ipv6.opt.pdm.scale_dtls",
	"ipv6.opt.pdm.delta_last_recv", "ipv6.opt.pdm.delta_last_sent",
	"ipv6.opt.ioam.trace.remlen", "ipv6.opt.ioam.trace.flag.o", "ipv6.opt.ioam.trace.node.hlim", "ipv6.opt.ioam.trace.node.id",
	"_ws.malformed", "udp.checksum.status", "data.data",
)

// fields returns what must be shown of a header.
func (v standardVector) fields(when time.Time) map[string]string {
	h, want := v.header, map[string]string{
		"udp.checksum.status": "1", "data.data": hex.EncodeToString([]byte("pillion!")), "pillion.next": "17",
	}
	flag := map[bool]string{true: "1", false: "0"}
	switch {
	case h.E2E != nil:
		encoding := "ioam-e2e"
		if h.Trace != nil {
			encoding = "ioam-trace"
		}
		v.edgeToEdge(want, encoding, when)
	case h.PDM != nil:
		want["pillion.encoding"], want["pillion.modules"] = "pdm", "loss"
	case h.AltMark != nil:
		want["pillion.encoding"], want["pillion.modules"] = "altmark", "loss"
		want["pillion.altmark.flow"] = fmt.Sprintf("0x%08x", h.AltMark.Flow)
		want["pillion.altmark.loss"], want["pillion.altmark.delay"] = flag[h.AltMark.Loss], flag[h.AltMark.Delay]
	case h.DEX != nil:
		want["pillion.encoding"], want["pillion.next"] = "ioam-dex", ""
		want["pillion.ioam.namespace"] = strconv.Itoa(int(h.DEX.Namespace))
		want["pillion.dex.type"] = fmt.Sprintf("0x%06x", h.DEX.Type)
		want["pillion.dex.flow"], want["pillion.dex.sequence"] = fmt.Sprintf("0x%08x", h.DEX.Flow), strconv.Itoa(int(h.DEX.Number))
	case h.Own.Modules != 0:
		want = merge(want, fieldsOf(codec.Vector{Encoding: wire.Native, Mark: h.Own, Original: v.packet(nil)}, when))
	default:
		want["pillion.next"] = ""
	}
	if h.PDM != nil {
		want["ipv6.opt.pdm.psn_this_pkt"], want["ipv6.opt.pdm.psn_last_recv"] = strconv.Itoa(int(h.PDM.Number)), strconv.Itoa(int(h.PDM.Last))
		want["ipv6.opt.pdm.scale_dtlr"], want["ipv6.opt.pdm.scale_dtls"] = strconv.Itoa(int(h.PDM.LastReceived.Scale)), strconv.Itoa(int(h.PDM.LastSent.Scale))
		want["ipv6.opt.pdm.delta_last_recv"], want["ipv6.opt.pdm.delta_last_sent"] = strconv.Itoa(int(h.PDM.LastReceived.Value)), strconv.Itoa(int(h.PDM.LastSent.Value))
	}
	if h.Trace != nil {
		want["ipv6.opt.ioam.trace.remlen"] = strconv.Itoa(h.Trace.Left)
		want["ipv6.opt.ioam.trace.flag.o"] = flag[h.Trace.Flags&codec.TraceOverflow != 0]
		if n := len(h.Trace.Entries); n > 0 { // the entry that stands last is that of the first router
			want["ipv6.opt.ioam.trace.node.hlim"] = strconv.Itoa(int(h.Trace.Entries[0][0] >> 24))
			want["ipv6.opt.ioam.trace.node.id"] = fmt.Sprintf("0x%06x", h.Trace.Entries[0][0]&0xffffff)
		}
	}
	for _, o := range h.Modules {
		number := uint64(0)
		for _, b := range o.Data {
			number = number<<8 | uint64(b)
		}
		switch o.ID {
		case codec.ModuleTag:
			want["pillion.tag"] = fmt.Sprintf("0x%08x", number)
		case codec.ModuleIngress:
			want["pillion.ingress"] = strconv.FormatUint(number, 10)
		default:
			want["pillion.module.id"], want["pillion.module.data"] = fmt.Sprintf("0x%02x", o.ID), hex.EncodeToString(o.Data)
		}
	}
	return want
}

// edgeToEdge adds what must be shown of an edge-to-edge option.
func (v standardVector) edgeToEdge(want map[string]string, encoding string, when time.Time) {
	e := v.header.E2E
	m := codec.Mark{Single: e.Number&wire.SingleBit != 0, Sequence: uint32(e.Number) & wire.SequenceMask}
	if e.Fields&codec.E2ESeconds != 0 {
		m.Modules, m.Sent = wire.Delay, codec.Timestamp(e.Seconds)<<32|codec.Timestamp(e.Fraction)
	}
	if e.Fields&codec.E2ESequence32 != 0 {
		m.Modules |= wire.Loss
	}
	for name, value := range fieldsOf(codec.Vector{Encoding: wire.Native, Mark: m, Original: v.packet(nil)}, when) {
		want[name] = value
	}
	if e.Fields&codec.E2ESequence64 != 0 {
		want["pillion.ioam.sequence64"] = strconv.FormatUint(e.Number, 10)
		want["pillion.modules"] = "delay,loss"
	}
	want["pillion.encoding"], want["pillion.ioam.namespace"] = encoding, strconv.Itoa(int(e.Namespace))
}

func merge(into, from map[string]string) map[string]string {
	for name, value := range from {
		into[name] = value
	}
	return into
}

// packet returns the packet of the vectors with these headers.
func (v standardVector) packet(header []byte) []byte {
	datagram := header6.with(17, segment{append([]byte{0xc0, 0, 0, 9, 0, 16, 0, 0}, "pillion!"...), 6})
	if header == nil {
		return datagram
	}
	packet := append(slices.Clone(datagram[:40]), header...)
	packet = append(packet, datagram[40:]...)
	packet[5], packet[6] = byte(len(packet)-40), 60
	if v.hop {
		packet[6] = 0
	}
	return packet
}

var header6 = header{v6: true}

// TestDissectorStandard: Wireshark and the dissector show every field of every vector, and nothing malformed.
func TestDissectorStandard(t *testing.T) {
	var packets []captured
	for _, v := range standardVectors {
		packets = append(packets, whole(v.packet(unhex(t, v.hex))))
	}
	when := at(t, "2026-11-21T10:00:00Z")
	got := dissect(t, packets, when, wire.Port, append(standardFields, "udp.srcport")...)
	for i, v := range standardVectors {
		t.Run(v.name, func(t *testing.T) {
			want := v.fields(when)
			for _, f := range standardFields {
				if got[i][f] != want[f] {
					t.Errorf("%s is %q, want %q", f, got[i][f], want[f])
				}
			}
		})
	}
}

// TestDissectorStandardBroken: what is no mark, or cut short, shows nothing and breaks nothing.
func TestDissectorStandardBroken(t *testing.T) {
	var packets []captured
	for _, v := range standardVectors {
		packet := v.packet(unhex(t, v.hex))
		for n := 41; n < len(packet)-16; n++ {
			packets = append(packets, captured{packet[:n], len(packet)})
		}
		for at := 42; at < min(len(packet)-16, 60); at++ {
			packets = append(packets, whole(edit(packet, at, 0xff)))
		}
	}
	for i, got := range dissect(t, packets, at(t, "2026-11-21T10:00:00Z"), wire.Port, standardFields...) {
		if cut := packets[i].length != len(packets[i].bytes); cut && got["pillion.modules"] != "" {
			t.Errorf("%d of %d bytes show %v", len(packets[i].bytes), packets[i].length, got)
		}
	}
}
