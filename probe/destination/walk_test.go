package destination

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
)

// Headers of options, as hex: what becomes of a packet with one of them.
const (
	unmarked  = "unmarked"
	malformed = "malformed"
	restored6 = "restored" // read, and the header taken out
	kept      = "kept"     // read, and left in
)

const (
	delayOption  = "3e10ecd0a4e2400000000000000000000000"
	lossOption   = "1e0480000005"
	taggedOption = "1e088000000511223344"
	sparseOption = "1e058000000504"
	ingress42    = "3e05020000002a"
	hopCount     = "3e024040"
)

// optionHeaders are headers behind the fixed header. The first bytes, next header and length,
// are put in front; rows that end with an incomplete header say so by their length.
var optionHeaders = []struct {
	name, options string
	want          string
	hopByHop      bool
	units         int // of 8 bytes behind the first 8, if not those of the options
}{
	{name: "native loss", options: lossOption, want: restored6},
	{name: "native delay and loss", options: delayOption + lossOption + "010400000000", want: restored6},
	{name: "native, tagged, ingress", options: delayOption + taggedOption + ingress42 + "010100", want: restored6},
	{name: "native, hop count", options: delayOption + lossOption + hopCount + "0100", want: restored6},
	{name: "native, two modules", options: delayOption + lossOption + hopCount + ingress42 + "010100", want: restored6},
	{name: "native loss with a module", options: lossOption + hopCount + "01020000", want: restored6},
	{name: "native delay with a module", options: delayOption + hopCount, want: restored6},
	{name: "native sparse with a module", options: delayOption + sparseOption + hopCount + "00", want: restored6},
	{name: "native sparse without a delay", options: sparseOption + "0105" + "0000000000", want: malformed},
	{name: "native with its loss first", options: lossOption + delayOption + "010400000000", want: malformed},
	{name: "native behind an option of others", options: "04010100" + "0100" + lossOption + "0100", want: malformed},
	{name: "native before an option of others", options: lossOption + "040101" + "0103000000", want: malformed},
	{name: "native with nonzero padding", options: delayOption + lossOption + "010400000001", want: malformed},
	{name: "native with too much padding", options: lossOption + "0106000000000000", want: malformed},
	{name: "native with padding in between", options: delayOption + "0100" + lossOption + "01020000", want: malformed},
	{name: "loss twice", options: lossOption + lossOption + "0100", want: malformed},
	{name: "delay twice", options: delayOption + delayOption + "0100", want: malformed},
	{name: "ingress twice", options: lossOption + ingress42 + ingress42 + "0100", want: malformed},
	{name: "ingress of another length", options: lossOption + "3e040200002a" + "0100", want: malformed},
	{name: "module without an id", options: lossOption + "3e00" + "010400000000", want: malformed},
	{name: "module with an id of nobody", options: lossOption + "3e023f40" + "01020000", want: malformed},
	{name: "module without a mark", options: hopCount + "0100", want: malformed},
	{name: "option beyond the header", options: lossOption + "3e1040000000", units: 1, want: malformed},
	{name: "no length behind a type", options: lossOption + "040101" + "0000000000"[:8] + "3e", want: malformed},
	{name: "options of others", options: "c20400000010", want: unmarked},
	{name: "home address", options: "0100" + "c910" + strings.Repeat("20", 16) + "0000", want: unmarked},
	{name: "others, beyond the header", options: "04ff01000000", want: unmarked},
	{name: "nothing but padding", options: "010400000000", want: unmarked},
	{name: "many Pad1", options: strings.Repeat("00", 22), want: unmarked},
	{name: "160 bytes", options: lossOption + ingress42 + "047f" + strings.Repeat("11", 127) + "010e" + strings.Repeat("00", 14), want: malformed},
	{name: "160 bytes of others", options: "047f" + strings.Repeat("11", 127) + "011b" + strings.Repeat("00", 27), want: unmarked},
	{name: "168 bytes", options: lossOption + strings.Repeat("04060000000000000000"[:16], 20), want: malformed},
	{name: "168 bytes of others", options: "047f" + strings.Repeat("11", 127) + "0123" + strings.Repeat("00", 35), want: unmarked},
	{name: "a trace of others without a time", options: "0100" + "310a" + "00000000" + "1800" + "b0000000", hopByHop: true, want: unmarked},
	{name: "router alert", options: "05020000" + "0100", hopByHop: true, want: unmarked},
}

// behind is a datagram from 2001:db8::1 to 2001:db8::2.
func behind(header []byte, next byte) []byte {
	const payload = "c00000090010b4a770696c6c696f6e21"
	datagram, _ := hex.DecodeString(payload)
	packet := make([]byte, 40, 40+len(header)+len(datagram))
	packet[0], packet[6], packet[7] = 0x60, next, 64
	copy(packet[8:], []byte{0x20, 1, 0xd, 0xb8, 15: 1})
	copy(packet[24:], []byte{0x20, 1, 0xd, 0xb8, 15: 2})
	packet = append(append(packet, header...), datagram...)
	packet[4], packet[5] = byte((len(packet)-40)>>8), byte(len(packet)-40)
	return packet
}

// optionsHeader puts options behind the head of a header before UDP.
func optionsHeader(t testing.TB, options string, units int) []byte {
	t.Helper()
	raw, err := hex.DecodeString(options)
	if err != nil {
		t.Fatal(err)
	}
	header := append([]byte{17, 0}, raw...)
	if units == 0 {
		if len(header)%8 != 0 {
			t.Fatalf("header of %d bytes: %x", len(header), header)
		}
		units = len(header)/8 - 1
	}
	header[1] = byte(units)
	for len(header) < 8*(units+1) {
		header = append(header, 0)
	}
	return header
}

// TestOptionWalk reads headers that are not laid out as the usual ones.
func TestOptionWalk(t *testing.T) {
	d := open(t, Settings{})
	for _, row := range optionHeaders {
		for _, hook := range hooks {
			t.Run(row.name+"/"+hook.name, func(t *testing.T) {
				next := byte(60)
				if row.hopByHop {
					next = 0
				}
				in := frame(behind(optionsHeader(t, row.options, row.units), next), hook.tags...)
				want := in
				if row.want == restored6 {
					want = frame(behind(nil, 17), hook.tags...)
				}
				before := d.mustTally(t)
				checkFrame(t, run(t, hook.program(d), in, 0), want)
				after := d.mustTally(t)
				got := map[string]uint64{
					unmarked:  after.Unmarked - before.Unmarked,
					malformed: after.Reasons[malformed] - before.Reasons[malformed],
					restored6: after.Restored - before.Restored,
					kept:      after.Kept - before.Kept,
				}
				if got[row.want] != 1 || after.Seen-before.Seen != 1 {
					t.Errorf("got %v, want %s", got, row.want)
				}
				for key, f := range d.takeFlows(t) {
					if key.Key() != keyOf(behind(nil, 17)) || f.Bytes != uint64(len(behind(nil, 17))) {
						t.Errorf("flow %v of %d bytes", key.Key(), f.Bytes)
					}
				}
			})
		}
	}
}

// walkOne sends a header through a program and checks what may become of its packet.
func walkOne(t *testing.T, d *Destination, program *ebpf.Program, header []byte, next byte) {
	t.Helper()
	in := frame(behind(header, next))
	before := d.mustTally(t)
	out, code, err := tryRun(program, in, 0)
	if err != nil {
		return // refused by the kernel, before the program
	}
	after := d.mustTally(t)
	if code != 0 || after.Seen-before.Seen != 1 {
		t.Fatalf("%x: program returned %d, %d seen", in, int32(code), after.Seen-before.Seen)
	}
	if bytes.Equal(out, in) {
		return
	}
	taken := after.Restored - before.Restored + after.Reasons["flow"] - before.Reasons["flow"]
	if taken != 1 || !isWithout(out, in, 40) && !(next == 0 && len(header) > 1 && isWithout(out, in, 48+8*int(header[1]))) {
		t.Fatalf("%x\nbecame %x, tally from %+v to %+v", in, out, before, after)
	}
}

// isWithout says whether a frame is another one without a header that begins at this offset in the packet.
func isWithout(got, in []byte, at int) bool {
	packet := append([]byte(nil), in[14:]...)
	removed := len(in) - len(got)
	if removed < 8 || removed%8 != 0 || len(packet) < at+removed {
		return false
	}
	next := 6
	if at > 40 {
		next = 40
	}
	packet[next] = packet[at]
	packet = append(packet[:at], packet[at+removed:]...)
	binary.BigEndian.PutUint16(packet[4:], uint16(len(packet)-40))
	return bytes.Equal(got, frame(packet))
}

// someHeader makes a header out of options, most of which are nearly right.
func someHeader(r *rand.Rand) []byte {
	pieces := []string{delayOption, lossOption, taggedOption, sparseOption, ingress42, hopCount, "3e0501aabbccdd", "0100", "00", "010400000000",
		"01020000", "111200030000700080000005ecd0a4e240000000", "0f0a1d2403e81f409184e35f", "1204abcdec00", "0401ff", "c20400000010"}
	header := []byte{17, 0}
	for range 1 + r.IntN(6) {
		piece, _ := hex.DecodeString(pieces[r.IntN(len(pieces))])
		if r.IntN(8) == 0 {
			piece[r.IntN(len(piece))] ^= 1 << r.IntN(8)
		}
		header = append(header, piece...)
	}
	if pad := -len(header) & 7; pad == 1 {
		header = append(header, 0)
	} else if pad > 1 {
		header = append(append(header, 1, byte(pad-2)), make([]byte, pad-2)...)
	}
	header[1] = byte(len(header)/8 - 1)
	if r.IntN(8) == 0 {
		header[1] = byte(r.Uint32())
	}
	return header
}

// TestRandomOptionsAreLeft sends headers of options that nobody wrote for two seconds.
func TestRandomOptionsAreLeft(t *testing.T) {
	d := open(t, Settings{Flows: 64})
	random := rand.New(rand.NewPCG(17, 17))
	programs := []*ebpf.Program{d.objects.DestinationTc, d.objects.DestinationXdp}
	sent := 0
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end); sent++ {
		next := byte(60)
		if random.IntN(4) == 0 {
			next = 0
		}
		walkOne(t, d, programs[sent%2], someHeader(random), next)
	}
	tally := d.mustTally(t)
	t.Logf("%d headers: %d read, %d kept, %d unmarked, rejected %v", sent, tally.Packets, tally.Kept, tally.Unmarked, tally.Reasons)
	if tally.Packets == 0 || tally.Restored+tally.Kept != tally.Packets {
		t.Errorf("tally %+v", tally)
	}
}

// FuzzWalk sends any header through both programs.
func FuzzWalk(f *testing.F) {
	d := open(f, Settings{Flows: 64})
	for _, row := range optionHeaders {
		f.Add(optionsHeader(f, row.options, row.units), row.hopByHop)
	}
	f.Fuzz(func(t *testing.T, header []byte, hopByHop bool) {
		if len(header) > 1024 {
			return
		}
		next := byte(60)
		if hopByHop {
			next = 0
		}
		walkOne(t, d, d.objects.DestinationTc, header, next)
		walkOne(t, d, d.objects.DestinationXdp, header, next)
	})
}
