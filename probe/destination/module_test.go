package destination

import (
	"bytes"
	"testing"

	"github.com/cilium/ebpf"

	"pillion.dev/wire"
	"pillion.dev/wire/test/codec"
)

// TestModuleOptions: marks with options of modules are read and removed, by a program that
// does not know these modules, too; a mark whose options are broken stays.
func TestModuleOptions(t *testing.T) {
	d := open(t, Settings{})
	known := codec.AppendModules(codec.ModuleOption{ID: 0x40, Data: []byte{64}}, codec.IngressOption(42))
	for _, row := range []struct {
		name, options string
		change        func(marked []byte, at int) // at: of the options
		restored      bool
	}{
		{"one", codec.AppendModules(codec.ModuleOption{ID: 0x7f, Data: []byte{1, 2, 3, 4, 5, 6, 7, 8}}), nil, true},
		{"two", known, nil, true},
		{"most", codec.AppendModules(codec.ModuleOption{ID: 0x41, Data: make([]byte, 14)}, codec.ModuleOption{ID: 0x42, Data: make([]byte, 12)}), nil, true},
		{"twice the same", codec.AppendModules(codec.IngressOption(1), codec.IngressOption(2)), nil, false},
		{"no such id", known, func(b []byte, at int) { b[at+2] = 3 }, false},
		{"ends behind the mark", known, func(b []byte, at int) { b[at+5] = 200 }, false},
		{"without id", known, func(b []byte, at int) { b[at+1] = 0 }, false},
	} {
		for _, encoding := range []wire.Encoding{wire.Native, wire.Shim, wire.IPIP, wire.UDP} {
			t.Run(row.name+" "+encoding.String(), func(t *testing.T) {
				original := datagramOf(encoding)
				mark := codec.Mark{Modules: wire.Delay | wire.Loss, Sent: codec.Timestamp(1 << 32), Sequence: 7, Single: true, Options: row.options}
				marked, err := codec.Insert(original, encoding, mark, wire.Port)
				if err != nil {
					t.Fatal(err)
				}
				if row.change != nil {
					row.change(marked, bytes.Index(marked, []byte(row.options)))
				}
				before := d.mustTally(t)
				for _, program := range []*ebpf.Program{d.objects.DestinationTc, d.objects.DestinationXdp} {
					want := marked
					if row.restored {
						want = original
					}
					if out := run(t, program, frame(marked), 0); !bytes.Equal(out, frame(want)) {
						t.Errorf("%v: %x became %x", program, marked, out[14:])
					}
				}
				after := d.mustTally(t)
				restored, malformed := after.Restored-before.Restored, after.Reasons["malformed"]-before.Reasons["malformed"]
				if restored+malformed != 2 || row.restored != (restored == 2) {
					t.Errorf("%d restored, %d malformed", restored, malformed)
				}
			})
		}
	}
}

// datagramOf is a packet that an encoding can mark.
func datagramOf(encoding wire.Encoding) []byte {
	if encoding == wire.Native {
		packet := append([]byte{0x60, 0, 0, 0, 0, 10, 17, 64}, make([]byte, 32)...)
		packet[23], packet[39] = 1, 2
		return append(packet, 0xc0, 0, 0, 9, 0, 10, 0, 0, 'h', 'i')
	}
	packet := []byte{0x45, 0, 0, 30, 0, 0, 0x40, 0, 64, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2}
	sum := uint32(0)
	for i := 0; i < len(packet); i += 2 {
		sum += uint32(packet[i])<<8 | uint32(packet[i+1])
	}
	sum = ^(sum&0xffff + sum>>16)
	packet[10], packet[11] = byte(sum>>8), byte(sum)
	return append(packet, 0xc0, 0, 0, 9, 0, 10, 0, 0, 'h', 'i')
}
