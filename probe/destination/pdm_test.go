package destination

import (
	"slices"
	"testing"
	"time"

	"pillion.dev/wire"
	"pillion.dev/wire/test/codec"
)

// numbered is a mark with a number, in an encoding.
type numbered struct {
	encoding wire.Encoding
	number   uint32
}

func short(numbers ...uint32) []numbered { return allIn(wire.PDM, numbers) }
func long(numbers ...uint32) []numbered  { return allIn(wire.Native, numbers) }

func allIn(e wire.Encoding, numbers []uint32) []numbered {
	var all []numbered
	for _, n := range numbers {
		all = append(all, numbered{e, n})
	}
	return all
}

// TestPDMWindow: the window continues numbers of 16 bits beyond their end, in both directions.
func TestPDMWindow(t *testing.T) {
	d := open(t, Settings{})
	for _, row := range []struct {
		name string
		in   []numbered
		want counts
	}{
		{"begins near zero", short(5, 6, 7), counts{expected: 3}},
		{"begins at the end", short(65535, 0, 1), counts{expected: 3}},
		{"first overtaken", short(9, 8, 10), counts{expected: 2, late: 1}},
		{"one lost", short(9, 11), counts{expected: 3, lost: 1}},
		{"loss over the end", short(65534, 2), counts{expected: 5, lost: 3}},
		{"reordering over the end", short(65534, 0, 65535), counts{expected: 3, reordered: 1}},
		{"duplicate over the end", short(65535, 0, 65535), counts{expected: 2, duplicated: 1}},
		{"five times around", short(0, 30000, 60000, 24464, 54464, 18928, 48928, 13392, 43392, 7856, 37856), counts{expected: 300001, lost: 299990}},
		{"32,767 lost in a row", short(100, 101+32767, 102+32767), counts{expected: 32770, lost: 32767}},
		{"32,768 lost in a row", short(100, 101+32768, 102+32768, 103+32768), counts{expected: 3, late: 1, restarts: 1}},
		{"begins anew behind", short(40000, 40001, 12000, 12001, 12003), counts{expected: 5, lost: 1, late: 1, restarts: 1}},
		{"late ones that do not follow each other", short(0, 5000, 1, 5001, 2, 3005), counts{expected: 5002, lost: 4999, late: 3}},
		{"native behind pdm", slices.Concat(short(0x64), long(0x50065), short(0x66), long(0x50067)), counts{expected: 4}},
		{"pdm behind native", slices.Concat(long(0x30000, 0x30001), short(2, 3), long(0x30005)), counts{expected: 6, lost: 1}},
	} {
		t.Run(row.name, func(t *testing.T) {
			for _, in := range row.in {
				marked, err := codec.Insert(datagramOf(wire.Native), in.encoding, codec.Mark{Modules: wire.Loss, Sequence: in.number, Single: true}, wire.Port)
				if err != nil {
					t.Fatal(err)
				}
				run(t, d.objects.DestinationTc, frame(marked), 0)
			}
			w := d.takeFlow(t).Window
			if got := (counts{w.Expected, w.Expected - w.Unique, w.Duplicated, w.Reordered, w.Late, w.Restarts}); got != row.want {
				t.Errorf("got %+v, want %+v", got, row.want)
			}
		})
	}
}

// TestPDMTags: the tag covers the number as it travels, and what comes far behind is late, not replayed.
func TestPDMTags(t *testing.T) {
	d := open(t, Settings{Peers: Peers{{}: {Keys: []wire.Key{pairKey}}}})
	w := tagger{datagramOf(wire.Native), wire.PDM, pairKey}
	now := time.Now()
	for _, row := range []struct {
		name, want string
		number     uint32
		change     func(*codec.Mark)
	}{
		{"first", "marked", 60000, func(*codec.Mark) {}},
		{"next", "marked", 60001, func(m *codec.Mark) { m.Echo.Last = 7 }},
		{"beyond the end", "marked", 100, func(*codec.Mark) {}},
		{"far behind", "marked", 90, func(*codec.Mark) {}},
		{"another number", "forged", 101, func(m *codec.Mark) { m.Sequence++ }},
		{"no tag", "forged", 103, func(m *codec.Mark) { m.Tagged, m.Tag = false, 0 }},
	} {
		for hook := range 2 {
			if got := d.verdict(t, hook, w.write(t, row.number, false, now, row.change)); got != row.want {
				t.Errorf("%s, %s: %s, want %s", row.name, hooks[hook].name, got, row.want)
			}
		}
	}
}

// TestForeignPDM: options that others wrote, beside other options or elsewhere in their header, are read and stay.
func TestForeignPDM(t *testing.T) {
	d := open(t, Settings{Strip: StripAlways})
	packet := datagramOf(wire.Native)
	for name, options := range map[string][]byte{
		"padding first":  {1, 2, 0, 0, 0x0f, 10, 9, 0, 0, 5, 0, 0, 0, 1, 0, 0, 1, 4, 0, 0, 0, 0},
		"a second one":   {0x0f, 10, 255, 8, 0, 6, 0, 1, 255, 255, 0, 1, 0x1d, 6, 1, 2, 3, 4, 5, 6, 0, 0},
		"long padding":   {0x0f, 10, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 1, 8, 0, 0, 0, 0, 0, 0, 0, 0},
		"IOAM behind it": {0x0f, 10, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0x11, 4, 0, 9, 0, 0, 1, 0},
	} {
		header := append([]byte{17, byte((len(options)+2)/8 - 1)}, options...)
		in := frame(slices.Concat(packet[:40], header, packet[40:]))
		in[14+5], in[14+6] = byte(len(in)-14-40), 60
		before := d.mustTally(t)
		for _, hook := range hooks[:2] {
			checkFrame(t, run(t, hook.program(d), in, 0), in)
		}
		after := d.mustTally(t)
		if got := after.Kept - before.Kept; got != 2 || after.Packets-before.Packets != 2 {
			t.Errorf("%s: %d kept, tally %+v", name, got, after)
		}
	}
}
