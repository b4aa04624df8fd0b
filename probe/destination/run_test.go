package destination

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"pillion.dev/internal/clock"
	"pillion.dev/internal/test/namespace"
	"pillion.dev/probe/flow"
	"pillion.dev/probe/hook"
	"pillion.dev/wire/test/codec"
)

// open loads the programs and attaches them to nothing: frames reach them by
// BPF_PROG_TEST_RUN.
func open(t testing.TB, settings Settings) *Destination {
	t.Helper()
	return openChanged(t, settings, func(*ebpf.CollectionSpec) {})
}

// openTC does so for tests that do not run the program of XDP: an empty one takes its place, which the kernel
// proves at once.
func openTC(t testing.TB, settings Settings) *Destination {
	t.Helper()
	return openChanged(t, settings, func(spec *ebpf.CollectionSpec) {
		spec.Programs["destination_xdp"].Instructions = asm.Instructions{asm.Mov.Imm(asm.R0, 2), asm.Return()} // XDP_PASS
	})
}

// TestTry: the kernel accepts all programs.
func TestTry(t *testing.T) {
	namespace.NeedRoot(t)
	if err := Try(); err != nil {
		t.Error(err)
	}
}

func openChanged(t testing.TB, settings Settings, change func(*ebpf.CollectionSpec)) *Destination {
	t.Helper()
	namespace.NeedRoot(t)
	settings.Flows = cmp.Or(settings.Flows, 256)
	settings.Idle = cmp.Or(settings.Idle, DefaultIdle)
	settings.Strip = cmp.Or(settings.Strip, StripAlways) // a test run has no route
	settings.RecordBytes = cmp.Or(settings.RecordBytes, DefaultRecordBytes)
	device := hook.Device{Name: "none", MTU: 1500, LinkLength: 14}
	d := &Destination{settings: settings, device: device, flows: map[flow.Raw]*state{}, absent: map[flow.Raw]*state{}, blocks: newBlocks(settings), clock: &clock.Follower{}}
	spec, err := specification(device, settings)
	if err != nil {
		t.Fatal(err)
	}
	change(spec)
	if err := spec.LoadAndAssign(&d.objects, nil); err != nil {
		t.Fatalf("load destination: %+v", err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := d.prepare(); err != nil {
		t.Fatal(err)
	}
	return d
}

// frame puts a packet on Ethernet, behind VLAN tags of these types.
func frame(packet []byte, tags ...uint16) []byte {
	b := []byte{2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1}
	for i, tag := range tags {
		b = binary.BigEndian.AppendUint16(b, tag)
		b = binary.BigEndian.AppendUint16(b, uint16(100+i))
	}
	ethertype := uint16(0x0800)
	if len(packet) > 0 && packet[0]>>4 == 6 {
		ethertype = 0x86dd
	}
	return append(binary.BigEndian.AppendUint16(b, ethertype), packet...)
}

// Of struct __sk_buff.
const (
	contextSize    = 192
	contextGSOSegs = 164
)

// run sends one frame through a program and returns what becomes of it. segments
// are the packets that the buffer was on the wire; 0 for a frame without a buffer.
func run(t *testing.T, program *ebpf.Program, in []byte, segments int) []byte {
	t.Helper()
	out, want, err := tryRun(program, in, segments)
	if err != nil {
		t.Fatalf("run %x: %v", in, err)
	}
	if want != 0 {
		t.Fatalf("run %x: program returned %d", in, int32(want))
	}
	return out
}

// tryRun returns zero for a program that lets the packet pass.
func tryRun(program *ebpf.Program, in []byte, segments int) ([]byte, uint32, error) {
	options := ebpf.RunOptions{Data: in, DataOut: make([]byte, len(in)+256)}
	pass := uint32(0xffffffff) // TC_ACT_UNSPEC
	if program.Type() == ebpf.XDP {
		pass = 2
	} else if segments > 1 {
		context := make([]byte, contextSize)
		binary.NativeEndian.PutUint32(context[contextGSOSegs:], uint32(segments))
		options.Context = context
	}
	code, err := program.Run(&options)
	return options.DataOut, code - pass, err
}

func golden(t *testing.T) []codec.Vector {
	t.Helper()
	all, err := codec.Vectors()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// each reads every entry of a map.
func each[K, V any](m *ebpf.Map, f func(K, *V)) error {
	keys := make([]K, readBatch)
	values := make([]V, readBatch)
	var cursor ebpf.MapBatchCursor
	for {
		n, err := m.BatchLookup(&cursor, keys, values, nil)
		if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return err
		}
		for i := range n {
			f(keys[i], &values[i])
		}
		if err != nil {
			return nil
		}
	}
}

// takeFlows returns what the programs keep, and forgets it.
func (d *Destination) takeFlows(t *testing.T) map[flow.Raw]destinationFlow {
	t.Helper()
	all := map[flow.Raw]destinationFlow{}
	if err := each(d.objects.Flows, func(key flow.Raw, f *destinationFlow) { all[key] = *f }); err != nil {
		t.Fatal(err)
	}
	for key := range all {
		r := newReading(ByFlow)
		if removed, err := d.remove(r, []flow.Raw{key}); err != nil || removed != 1 {
			t.Fatalf("removed %d flows, %v", removed, err)
		}
		if len(r.groups) > 0 { // with a run that was not in the flow yet
			all[key] = r.flows[0]
		}
	}
	clear(d.flows)
	return all
}

// takeFlow returns the only flow, and forgets it.
func (d *Destination) takeFlow(t *testing.T) destinationFlow {
	t.Helper()
	all := d.takeFlows(t)
	if len(all) != 1 {
		t.Fatalf("got %d flows, want 1", len(all))
	}
	for _, f := range all {
		return f
	}
	return destinationFlow{}
}

func (d *Destination) mustTally(t testing.TB) Tally {
	t.Helper()
	tally, err := d.Tally()
	if err != nil {
		t.Fatal(err)
	}
	return tally
}

func checkFrame(t *testing.T, got, want []byte) {
	t.Helper()
	if !bytes.Equal(got, want) {
		t.Errorf("got  %x\nwant %x", got, want)
	}
}
