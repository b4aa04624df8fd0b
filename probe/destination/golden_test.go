package destination

import (
	"net/netip"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"pillion.dev/probe/flow"
	"pillion.dev/wire"
	"pillion.dev/wire/test/codec"
)

var hooks = []struct {
	name    string
	program func(*Destination) *ebpf.Program
	tags    []uint16
}{
	{"tc", func(d *Destination) *ebpf.Program { return d.objects.DestinationTc }, nil},
	{"xdp", func(d *Destination) *ebpf.Program { return d.objects.DestinationXdp }, nil},
	{"xdp one tag", func(d *Destination) *ebpf.Program { return d.objects.DestinationXdp }, []uint16{0x8100}},
	{"xdp two tags", func(d *Destination) *ebpf.Program { return d.objects.DestinationXdp }, []uint16{0x88a8, 0x8100}},
}

// openPorts loads the programs once for each port of the golden vectors.
func openPorts(t *testing.T, settings Settings) map[uint16]*Destination {
	t.Helper()
	ports := map[uint16]*Destination{}
	for _, v := range golden(t) {
		if ports[v.Port] == nil {
			settings.Port = v.Port
			ports[v.Port] = open(t, settings)
		}
	}
	return ports
}

func TestGoldenVectorsAreRestored(t *testing.T) {
	ports := openPorts(t, Settings{})
	for _, hook := range hooks {
		for _, v := range golden(t) {
			d := ports[v.Port]
			t.Run(hook.name+"/"+v.Name, func(t *testing.T) {
				before := d.mustTally(t)
				got := run(t, hook.program(d), frame(v.Marked, hook.tags...), 0)
				after := d.mustTally(t)
				settled := after.Restored - before.Restored
				if v.Encoding == wire.TCPOption {
					settled = after.Kept - before.Kept
				}
				checkFrame(t, got, frame(restored(v), hook.tags...))
				if after.Packets-before.Packets != 1 || after.Seen-before.Seen != 1 || settled != 1 {
					t.Errorf("tally went from %+v to %+v", before, after)
				}
				if got := after.Bytes - before.Bytes; got != uint64(len(v.Original)) {
					t.Errorf("counted %d bytes, want %d", got, len(v.Original))
				}
				checkGoldenFlow(t, d, v)
			})
		}
	}
}

// restored is what becomes of a vector's packet: a TCP option stays.
func restored(v codec.Vector) []byte {
	if v.Encoding == wire.TCPOption {
		return v.Marked
	}
	return v.Original
}

// checkGoldenFlow compares the flow that one marked packet made with the vector.
func checkGoldenFlow(t *testing.T, d *Destination, v codec.Vector) {
	t.Helper()
	for key, f := range d.takeFlows(t) {
		if want := keyOf(v.Original); key.Key() != want {
			t.Errorf("flow %+v, want %+v", key.Key(), want)
		}
		if f.Packets != 1 || f.Bytes != uint64(len(v.Original)) {
			t.Errorf("flow has %d packets of %d bytes", f.Packets, f.Bytes)
		}
		if v.Mark.Modules&wire.Delay != 0 {
			received := time.Unix(0, int64(f.FirstNs))
			want := received.Sub(v.Mark.SentNear(received))
			if away := want - time.Duration(f.DelaySum); f.Delays != 1 || away.Abs() > time.Nanosecond {
				t.Errorf("%d delays, the sum is %d ns, want %d", f.Delays, f.DelaySum, want)
			}
		} else if f.Delays != 0 {
			t.Errorf("%d delays without timestamps", f.Delays)
		}
		if v.Mark.Modules&wire.Loss != 0 {
			w := f.Window
			if next := (v.Mark.Sequence + 1) & wire.SequenceMask; w.Unique != 1 || w.Next != next {
				t.Errorf("window has %d unique, next %d, want 1, %d", w.Unique, w.Next, next)
			}
		} else if f.Window.Begun != 0 {
			t.Error("a window without numbers")
		}
		return
	}
	t.Error("no flow")
}

// keyOf reads the five-tuple of a whole packet in a plain way.
func keyOf(packet []byte) flow.Key {
	var k flow.Key
	at := 40
	if packet[0]>>4 == 4 {
		k.Src, k.Dst = netip.AddrFrom4([4]byte(packet[12:])), netip.AddrFrom4([4]byte(packet[16:]))
		k.Protocol, at = packet[9], 4*int(packet[0]&15)
	} else {
		k.Src, k.Dst = netip.AddrFrom16([16]byte(packet[8:])), netip.AddrFrom16([16]byte(packet[24:]))
		if k.Protocol = packet[6]; k.Protocol == 0 {
			k.Protocol, at = packet[40], 48+8*int(packet[41])
		}
	}
	switch k.Protocol {
	case 6, 17, 33, 132, 136:
		if len(packet) >= at+4 {
			k.Sport = uint16(packet[at])<<8 | uint16(packet[at+1])
			k.Dport = uint16(packet[at+2])<<8 | uint16(packet[at+3])
		}
	}
	return k
}

func TestUnmarkedPacketsPass(t *testing.T) {
	d := open(t, Settings{})
	for _, hook := range hooks {
		before := d.mustTally(t)
		var packets uint64
		for _, v := range golden(t) {
			in := frame(v.Original, hook.tags...)
			checkFrame(t, run(t, hook.program(d), in, 0), in)
			packets++
		}
		after := d.mustTally(t)
		if got := after.Unmarked - before.Unmarked; got != packets || after.Packets != before.Packets {
			t.Errorf("%s: %d unmarked of %d, tally %+v", hook.name, got, packets, after)
		}
	}
	if flows := d.takeFlows(t); len(flows) != 0 {
		t.Errorf("%d flows", len(flows))
	}
}

func TestAmendLeavesMarksIn(t *testing.T) {
	ports := openPorts(t, Settings{Amend: true})
	for _, hook := range hooks {
		for _, v := range golden(t) {
			d := ports[v.Port]
			t.Run(hook.name+"/"+v.Name, func(t *testing.T) {
				before := time.Now()
				got := run(t, hook.program(d), frame(v.Marked, hook.tags...), 0)
				after := time.Now()
				original, mark, encoding, err := codec.Extract(got[14+4*len(hook.tags):], v.Port)
				if err != nil {
					t.Fatal(err)
				}
				d.takeFlows(t)
				checkFrame(t, original, v.Original)
				want := v.Mark
				if want.Modules&wire.Delay != 0 && codec.HasReceived(v.Encoding) && want.Received == 0 { // an earlier waypoint's time stays
					want.Received = mark.Received
					at := mark.Received.Near(before)
					if at.Before(before.Add(-time.Microsecond)) || at.After(after.Add(time.Microsecond)) {
						t.Errorf("received %v, not from %v to %v", at, before, after)
					}
				}
				if mark != want || encoding != v.Encoding {
					t.Errorf("mark %+v in %v, want %+v in %v", mark, encoding, want, v.Encoding)
				}
			})
		}
	}
}
