package codec_test

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"pillion.dev/wire"
	"pillion.dev/wire/test/codec"
)

// layout is the expected layout of wire.h as compiled. The offsets are those in the package
// comment.
var layout = []struct {
	name  string
	value uint64
}{
	{"WIRE_MODULES", 16},
	{"WIRE_MODULE_BYTES_MAX", 32},
	{"WIRE_DELAY", uint64(wire.Delay)},
	{"WIRE_LOSS", uint64(wire.Loss)},
	{"WIRE_SPARSE", 4},
	{"WIRE_TAGGED", 8},
	{"WIRE_TAG_LENGTH", 4},
	{"WIRE_TAG_TICKS", 0x40},
	{"WIRE_TAG_EPOCH", 35},
	{"WIRE_KEY_LENGTH", uint64(len(codec.Key{}))},
	{"WIRE_IPV4", uint64(wire.ClassIPv4)},
	{"WIRE_IPV6", uint64(wire.ClassIPv6)},
	{"WIRE_TCP", uint64(wire.ClassTCP)},
	{"WIRE_UDP", uint64(wire.ClassUDP)},
	{"WIRE_OTHER", uint64(wire.ClassOther)},
	{"WIRE_FORWARDED", uint64(wire.ClassForwarded)},
	{"WIRE_GSO", uint64(wire.ClassGSO)},
	{"WIRE_EXTENDED", uint64(wire.ClassExtended)},
	{"WIRE_OPTION_DELAY", codec.OptionDelay},
	{"WIRE_OPTION_LOSS", codec.OptionLoss},
	{"WIRE_OPTION_PADN", 1},
	{"WIRE_OPTION_DELAY_LENGTH", 16},
	{"WIRE_OPTION_LOSS_LENGTH", 4},
	{"WIRE_OPTION_SPARSE_LENGTH", 5},
	{"WIRE_OPTION_TAGGED_LENGTH", 8},
	{"WIRE_OPTION_TAGGED_SPARSE_LENGTH", 9},
	{"WIRE_NATIVE_DELAY", uint64(wire.Native.Overhead(wire.Delay))},
	{"WIRE_NATIVE_LOSS", uint64(wire.Native.Overhead(wire.Loss))},
	{"WIRE_NATIVE_BOTH", uint64(wire.Native.Overhead(wire.Delay | wire.Loss))},
	{"WIRE_NATIVE_TAGGED_LOSS", uint64(wire.Native.TaggedOverhead(wire.Loss))},
	{"WIRE_NATIVE_MAX", uint64(wire.Native.TaggedOverhead(wire.Delay | wire.Loss))},
	{"WIRE_SHIM_HEAD", 4},
	{"WIRE_SHIM_DELAY", uint64(wire.Shim.Overhead(wire.Delay))},
	{"WIRE_SHIM_LOSS", uint64(wire.Shim.Overhead(wire.Loss))},
	{"WIRE_SHIM_BOTH", uint64(wire.Shim.Overhead(wire.Delay | wire.Loss))},
	{"WIRE_SHIM_MAX", uint64(wire.Shim.TaggedOverhead(wire.Delay | wire.Loss))},
	{"WIRE_PROTOCOL", codec.Protocol},
	{"WIRE_UDP_PORT", wire.Port},
	{"WIRE_SINGLE", wire.SingleBit},
	{"WIRE_SEQUENCE_MASK", wire.SequenceMask},
	{"WIRE_FLOW_STRIDE", codec.FlowStride},
	{"WIRE_NTP_UNIX", codec.NTPUnix},
	{"WIRE_EXID", codec.ExID},
	{"WIRE_EXID_SPARSE", codec.ExIDSparse},
	{"WIRE_EXID_AGGREGATE", codec.ExIDAggregate},
	{"WIRE_AGGREGATE", 0x80},
	{"WIRE_AGGREGATE_FIELDS", 0x1f},
	{"WIRE_NATIVE_AGGREGATE_LOSS", 16},
	{"WIRE_EXPERIMENT_LENGTH", 12},
	{"WIRE_EXPERIMENT_TAGGED_LENGTH", 16},
	{"WIRE_TIME_SHIFT", 4},
	{"WIRE_UDP_OPTION_KIND", codec.OptionKind},
	{"WIRE_UDP_OPTION", uint64(wire.UDPOption.Overhead(wire.Delay | wire.Loss))},
	{"WIRE_UDP_OPTION_TAGGED", uint64(wire.UDPOption.TaggedOverhead(wire.Delay | wire.Loss))},
	{"WIRE_TCP_OPTION_KIND", codec.TCPOptionKind},
	{"WIRE_TCP_ROOM_KIND", codec.TCPRoomKind},
	{"WIRE_TCP_OPTION", uint64(wire.TCPOption.Overhead(wire.Delay | wire.Loss))},
	{"WIRE_TCP_OPTION_TAGGED", uint64(wire.TCPOption.TaggedOverhead(wire.Delay | wire.Loss))},
	{"sizeof.wire_timestamp", 8},
	{"sizeof.wire_delay", 16},
	{"sizeof.wire_option_delay", 18},
	{"sizeof.wire_option_loss", 6},
	{"sizeof.wire_options", 2},
	{"wire_native_delay.delay", 2},
	{"wire_native_delay.delay.data.sent", 4},
	{"wire_native_delay.delay.data.received", 12},
	{"wire_native_delay.pad", 20},
	{"wire_native_loss.loss", 2},
	{"wire_native_loss.loss.sequence", 4},
	{"wire_native_both.delay", 2},
	{"wire_native_both.loss", 20},
	{"wire_native_both.loss.sequence", 22},
	{"wire_native_both.pad", 26},
	{"wire_native_sparse.loss.flags", 26},
	{"wire_native_sparse.pad", 27},
	{"wire_native_tagged_loss.loss.sequence", 4},
	{"wire_native_tagged_loss.loss.tag", 8},
	{"wire_native_tagged_loss.pad", 12},
	{"wire_native_tagged_both.loss.sequence", 22},
	{"wire_native_tagged_both.loss.tag", 26},
	{"wire_native_tagged_both.pad", 30},
	{"wire_native_tagged_sparse.loss.sequence", 22},
	{"wire_native_tagged_sparse.loss.flags", 26},
	{"wire_native_tagged_sparse.loss.tag", 27},
	{"wire_native_tagged_sparse.pad", 31},
	{"wire_experiment.exid", 2},
	{"wire_experiment.number", 4},
	{"wire_experiment.time", 8},
	{"wire_experiment_tagged.mark", 0},
	{"wire_experiment_tagged.tag", 12},
	{"wire_udp_option.mark", 2},
	{"wire_udp_option_tagged.mark", 2},
	{"wire_shim.next_protocol", 1},
	{"wire_shim.length", 2},
	{"wire_shim.flags", 3},
	{"wire_shim_delay.delay", 4},
	{"wire_shim_loss.sequence", 4},
	{"wire_shim_both.delay", 4},
	{"wire_shim_both.sequence", 20},
	{"wire_shim_tagged_loss.tag", 8},
	{"wire_shim_tagged_both.tag", 24},
}

// TestLayout compiles wire.h and compares constants, sizes and offsets, and
// what its structs find in the golden vectors.
func TestLayout(t *testing.T) {
	cc, err := exec.LookPath("cc")
	if err != nil {
		missing(t, err)
	}
	program := filepath.Join(t.TempDir(), "layout")
	build := exec.Command(cc, "-std=c11", "-Wall", "-Wextra", "-Werror", "-Wno-address-of-packed-member",
		"-o", program, "testdata/layout/layout.c")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("compile wire.h: %v\n%s", err, out)
	}
	var input strings.Builder
	want := make([]string, 0, len(layout))
	for _, l := range layout {
		want = append(want, fmt.Sprint(l.name, " ", l.value))
	}
	want = append(want, compiledStandards(t)...)
	for _, v := range load(t) {
		kind, header, next, pad := cut(t, v.Marked, v.Encoding)
		if kind == "" {
			continue // a layout of another kind than the structs of wire.h
		}
		fmt.Fprintf(&input, "%s %x\n", kind, header)
		number := v.Mark.Sequence
		if v.Mark.Single {
			number |= 1 << 31
		}
		set := v.Mark.Modules
		if v.Mark.Sparse {
			set |= 4
		}
		if v.Mark.Tagged {
			set |= 8
		}
		want = append(want, fmt.Sprintf("%d %d %016x %016x %08x %08x %x.", set, next,
			uint64(v.Mark.Sent), uint64(v.Mark.Received), number, v.Mark.Tag, pad[set]))
	}
	run := exec.Command(program)
	run.Stdin = strings.NewReader(input.String())
	out, err := run.Output()
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(got) != len(want) {
		t.Fatalf("%d lines, want %d", len(got), len(want))
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("C has %q, Go has %q", got[i], want[i])
		}
	}
}

// cut returns the header or shim of a vector's packet, what is known of it
// without the codec, and the padding that each set of modules has.
func cut(t *testing.T, packet []byte, e wire.Encoding) (kind string, header []byte, next uint8, pad map[wire.Module][]byte) {
	t.Helper()
	if e == wire.Native {
		at := 40
		if packet[6] == 0 {
			at += 8 + 8*int(packet[41])
		}
		header = packet[at : at+8+8*int(packet[at+1])]
		return "options", header, header[0], map[wire.Module][]byte{
			wire.Delay:                     {1, 2, 0, 0},
			wire.Delay | wire.Loss:         {1, 4, 0, 0, 0, 0},
			wire.Delay | wire.Loss | 4:     {1, 3, 0, 0, 0},
			wire.Loss | 8:                  {1, 2, 0, 0},
			wire.Delay | wire.Loss | 8:     {1, 0},
			wire.Delay | wire.Loss | 4 | 8: {0},
		}
	}
	at := map[wire.Encoding]int{wire.Shim: 20, wire.IPIP: 40, wire.UDP: 28}[e]
	if at == 0 {
		return "", nil, 0, nil
	}
	header = packet[at : at+4+int(packet[at+2])]
	return "shim", header, header[1], nil
}
