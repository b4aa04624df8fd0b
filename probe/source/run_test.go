package source

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"flag"
	"math/rand/v2"
	"testing"

	"github.com/cilium/ebpf"

	"pillion.dev/internal/test/namespace"
	"pillion.dev/probe/hook"
	"pillion.dev/wire"
	"pillion.dev/wire/test/codec"
)

// dispatched has all tests of packets run through the dispatcher, as packets do where
// policies differ.
var dispatched = flag.Bool("dispatched", false, "lead packets to their policy first")

// all is what most tests mark: everything, in each packet.
func all(encoding wire.Encoding, modules wire.Module) Settings {
	return Settings{Policy: Policy{Modules: modules, Encodings: wire.EncodingList{encoding, wire.Native}, Marking: wire.Marking{StampEvery: 1}}}
}

// hookDevice is no device of this machine.
var hookDevice = hook.Device{Name: "none", MTU: 1500, LinkLength: 14}

// open loads the programs and attaches them to nothing: frames reach them by
// BPF_PROG_TEST_RUN. The lease has no end.
func open(t *testing.T, settings Settings, changes ...func(*ebpf.CollectionSpec) error) *Source {
	t.Helper()
	namespace.NeedRoot(t)
	settings.Flows = cmp.Or(settings.Flows, 1024)
	settings.Idle = cmp.Or(settings.Idle, wire.Duration(DefaultIdle))
	s, spec, err := newSource(hookDevice, settings)
	if err != nil {
		t.Fatal(err)
	}
	for _, change := range changes {
		if err := change(spec); err != nil {
			t.Fatal(err)
		}
	}
	if err := spec.LoadAndAssign(&s.objects, nil); err != nil {
		t.Fatalf("load source: %+v", err)
	}
	s.adopt()
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := s.prepare(settings); err != nil {
		t.Fatal(err)
	}
	if err := s.Renew(Forever); err != nil {
		t.Fatal(err)
	}
	if *dispatched {
		s.dispatch(t)
	}
	return s
}

// dispatch makes the dispatcher, with one policy, what tests call source_tc.
func (s *Source) dispatch(t *testing.T) {
	t.Helper()
	if err := errors.Join(s.loadDispatcher(), s.fill(s.places)); err != nil {
		t.Fatal(err)
	}
	first := s.objects.SourceTc
	s.objects.SourceTc, s.entry = s.dispatcher.Program, s.dispatcher.Program
	s.dispatcher.Program = nil // closed with the objects
	t.Cleanup(func() { first.Close() })
}

// frame puts a packet on Ethernet.
func frame(packet []byte) []byte {
	b := []byte{2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0}
	if len(packet) > 0 && packet[0]>>4 == 6 {
		b[12], b[13] = 0x86, 0xdd
	}
	return append(b, packet...)
}

// tryRun sends a packet through a program. The kernel refuses some frames that
// are too short for what their ethertype says.
func tryRun(t *testing.T, program *ebpf.Program, packet []byte) ([]byte, error) {
	t.Helper()
	in := frame(packet)
	options := ebpf.RunOptions{Data: in, DataOut: make([]byte, len(in)+256)}
	code, err := program.Run(&options)
	if err != nil {
		return nil, err
	}
	if code != 0xffffffff { // TC_ACT_UNSPEC
		t.Fatalf("run %x: program returned %d", in, int32(code))
	}
	if !bytes.Equal(options.DataOut[:14], in[:14]) {
		t.Fatalf("link header %x became %x", in[:14], options.DataOut[:14])
	}
	return options.DataOut[14:], nil
}

func run(t *testing.T, program *ebpf.Program, packet []byte) []byte {
	t.Helper()
	out, err := tryRun(t, program, packet)
	if err != nil {
		t.Fatalf("run %x: %v", packet, err)
	}
	return out
}

// mark sends a packet through the egress program and reads its mark.
func (s *Source) mark(t *testing.T, packet []byte) codec.Mark {
	t.Helper()
	out := run(t, s.objects.SourceTc, packet)
	_, m, _, err := codec.Extract(out, wire.Port)
	if err != nil {
		t.Fatalf("%x: %v", out, err)
	}
	return m
}

// outcome sends a packet through the egress program and says what became of it.
func (s *Source) outcome(t *testing.T, packet []byte) string {
	t.Helper()
	before := s.mustTally(t)
	out := run(t, s.entry, packet)
	after := s.mustTally(t)
	if after.Seen-before.Seen != 1 {
		t.Fatalf("one packet was counted %d times", after.Seen-before.Seen)
	}
	if marked := after.Marked - before.Marked; (marked == 1) == bytes.Equal(out, packet) {
		t.Fatalf("%d marked, %x became %x", marked, packet, out)
	}
	for name, n := range after.Skipped {
		if n != before.Skipped[name] {
			return name
		}
	}
	if after.Counted != before.Counted {
		return "counted"
	}
	return "marked"
}

func (s *Source) mustTally(t *testing.T) Tally {
	t.Helper()
	tally, err := s.Tally()
	if err != nil {
		t.Fatal(err)
	}
	return tally
}

// TestTry: the kernel accepts all programs with every encoding.
func TestTry(t *testing.T) {
	namespace.NeedRoot(t)
	if err := Try(); err != nil {
		t.Error(err)
	}
}

// TestTraceProbesAreNotMarked: what ends on the way would count as lost.
func TestTraceProbesAreNotMarked(t *testing.T) {
	s := open(t, all(wire.Shim, wire.Delay|wire.Loss))
	const markOffset, contextSize = 8, 192 // in struct __sk_buff
	packet := variety{Rand: rand.New(rand.NewPCG(1, 1))}.plain()
	for _, row := range []struct {
		name    string
		mark    uint32
		skipped uint64
	}{{"ours", ProbeMark, 1}, {"another's", 7, 0}, {"none", 0, 0}} {
		t.Run(row.name, func(t *testing.T) {
			before := s.mustTally(t)
			context := make([]byte, contextSize)
			binary.NativeEndian.PutUint32(context[markOffset:], row.mark)
			in := frame(packet)
			options := ebpf.RunOptions{Data: in, DataOut: make([]byte, len(in)+256), Context: context}
			if _, err := s.objects.SourceTc.Run(&options); err != nil {
				t.Fatal(err)
			}
			if got := s.mustTally(t).Skipped["probe"] - before.Skipped["probe"]; got != row.skipped {
				t.Errorf("%d left alone, want %d", got, row.skipped)
			}
			if bytes.Equal(options.DataOut, in) != (row.skipped == 1) {
				t.Errorf("%x became %x", in, options.DataOut)
			}
		})
	}
}
