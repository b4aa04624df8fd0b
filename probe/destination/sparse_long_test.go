//go:build long

package destination

import (
	"fmt"
	"testing"
)

// TestLongSparseFlow: packets count as far as marks enclose them.
func TestLongSparseFlow(t *testing.T) {
	// x: with a mark, o: without, -: a mark is lost, .: another packet is lost.
	rows := []struct {
		name, packets string
		want          Counts // but for bytes
	}{
		{"all marked", "xxxx", Counts{Packets: 4, Expected: 4}},
		{"none lost", "xooxoooxx", Counts{Packets: 9, Expected: 9}},
		{"behind the last mark", "xoox..oo", Counts{Packets: 4, Expected: 4}},
		{"one lost", "xo.ox", Counts{Packets: 4, Expected: 5, Lost: 1}},
		{"mark lost", "xoo-oox", Counts{Packets: 6, Expected: 7, Lost: 1}},
		{"all between lost", "x....x", Counts{Packets: 2, Expected: 6, Lost: 4}},
		{"first mark lost", "-xx", Counts{Packets: 2, Expected: 3, Lost: 1}},
	}
	for encoding, plain := range sparseWays(t) {
		for _, slots := range []int{0, 1} {
			d := open(t, Settings{slots: slots})
			for _, hook := range hooks {
				for i, row := range rows {
					t.Run(fmt.Sprint(encoding, " ", slots, " ", hook.name, " ", row.name), func(t *testing.T) {
						if slots == 1 { // another flow takes it
							run(t, d.objects.DestinationTc, optionFrame(t), 0)
						}
						f := sparseFlow{t, hook.program(d), hook.tags, encoding, plain, uint32(i+1) << 16}
						before := d.mustTally(t)
						for number, what := range row.packets {
							if what == 'x' || what == 'o' {
								f.arrive(number, what == 'x')
							}
						}
						want := row.want
						want.Unchecked = want.Packets
						checkSparse(t, d, before, want, plain)
					})
				}
			}
		}
	}
}
