package destination

import (
	"testing"

	"github.com/cilium/ebpf"

	"pillion.dev/internal/netns"
	"pillion.dev/internal/test/namespace"
	"pillion.dev/probe/hook"
	"pillion.dev/wire"
	"pillion.dev/wire/test/codec"
)

// TestMarksAreReadOnce: a mark that stays in its packet is not read again by a program
// behind the first, as there is one while the first is replaced.
func TestMarksAreReadOnce(t *testing.T) {
	const controlBlock, contextSize = 48, 192 // in struct __sk_buff
	for _, settings := range []Settings{{Strip: StripNever}, {Amend: true}} {
		d := open(t, settings)
		for _, v := range golden(t) {
			if v.Port != wire.Port || settings.Strip == StripNever && !codec.HasTicks(v.Encoding) {
				continue
			}
			before := d.mustTally(t)
			context := make([]byte, contextSize)
			for range 2 {
				in := frame(v.Marked)
				out := make([]byte, contextSize)
				options := ebpf.RunOptions{Data: in, DataOut: make([]byte, len(in)+256), Context: context, ContextOut: out}
				if _, err := d.objects.DestinationTc.Run(&options); err != nil {
					t.Fatal(err)
				}
				copy(context[controlBlock:controlBlock+20], out[controlBlock:])
			}
			after := d.mustTally(t)
			if after.Packets-before.Packets != 1 || after.Unmarked-before.Unmarked != 1 {
				t.Errorf("%s, %+v: read %d times", v.Name, settings, after.Packets-before.Packets)
			}
		}
	}
}

// A program that replaces another continues its flows and counts.
func TestReplace(t *testing.T) {
	host := namespace.New(t)
	var first, second *Destination
	inHost := func(f func() error) {
		t.Helper()
		if err := netns.Do(host, f); err != nil {
			t.Fatal(err)
		}
	}
	inHost(func() error {
		device, err := hook.Find("lo")
		if err == nil {
			first, err = Open(device, Settings{})
		}
		return err
	})
	arrive := func(d *Destination, numbers ...int) {
		t.Helper()
		for _, a := range singles(0x30000, numbers...) {
			mark := codec.Mark{Modules: wire.Loss, Sequence: a.first, Single: a.single}
			marked, err := codec.Insert(golden(t)[0].Original, wire.Native, mark, wire.Port)
			if err != nil {
				t.Fatal(err)
			}
			run(t, d.objects.DestinationTc, frame(marked), 1)
		}
	}
	arrive(first, span(0, 10)...)
	before, err := first.Read(ByFlow)
	if err != nil || len(before) != 1 || before[0].Packets != 10 {
		t.Fatalf("rows of the first program: %+v, %v", before, err)
	}
	arrive(first, 10, 11)
	inHost(func() (err error) {
		second, err = first.Replace(Settings{Records: true})
		return err
	})
	arrive(first, 12) // it was on its way through
	inHost(first.Close)
	arrive(second, 14, 15, 13, 13, 17)
	after, err := second.Read(ByFlow)
	if err != nil || len(after) != 1 {
		t.Fatalf("rows of the second program: %+v, %v", after, err)
	}
	want := Counts{Packets: 8, Expected: 8, Lost: 1, Duplicated: 1, Reordered: 1, Bytes: after[0].Bytes}
	if after[0].Counts != want {
		t.Errorf("the second program counted %+v, want %+v", after[0].Counts, want)
	}
	if tally := second.mustTally(t); tally.Packets != 18 || tally.Records != 5 {
		t.Errorf("both counted %d packets, want 18, and %d records, want 5", tally.Packets, tally.Records)
	}
	inHost(func() error {
		if present, err := second.Present(); err != nil || !present {
			t.Errorf("second program is present: %v, %v", present, err)
		}
		return second.Close()
	})
}

// TestReplaceNotesSparseFlows: a sparse flow whose first mark the old program reads after the
// new one was opened is counted by the new one from its next packet on.
func TestReplaceNotesSparseFlows(t *testing.T) {
	plain := originalOf(t, "udp-option delay ipv4 udp")
	host := namespace.New(t)
	var first, second *Destination
	err := netns.Do(host, func() error {
		device, err := hook.Find("lo")
		if err == nil {
			first, err = Open(device, Settings{})
		}
		if err == nil {
			second, err = first.Replace(Settings{})
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	f := sparseFlow{t, first.objects.DestinationTc, nil, wire.UDPOption, plain, 1 << 16}
	f.arrive(0, true)
	f.program = second.objects.DestinationTc
	f.arrive(1, false)
	f.arrive(2, false)
	if err := netns.Do(host, first.Close); err != nil {
		t.Fatal(err)
	}
	f.arrive(3, false)
	f.arrive(4, true)
	checkSparse(t, second, Tally{}, Counts{Packets: 5, Expected: 5, Unchecked: 5}, plain)
	if err := netns.Do(host, second.Close); err != nil {
		t.Fatal(err)
	}
}
