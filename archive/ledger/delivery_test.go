package ledger

import (
	"testing"
	"time"
)

// delivered is the state after batches of one row.
func delivered(oldest uint64, sequences ...uint64) *Delivery {
	d := &Delivery{}
	for _, sequence := range sequences {
		d.Replay(sequence, oldest, 1)
		d.Seen = time.Unix(int64(sequence), 0)
	}
	return d
}

func TestMerge(t *testing.T) {
	for _, test := range []struct {
		name       string
		one, other *Delivery
		has, lacks []uint64
		batches    int64
	}{
		{"a later one", delivered(0, 0, 1), delivered(0, 0, 1, 2, 5), []uint64{0, 1, 2, 5}, []uint64{3, 4, 6}, 4},
		{"an earlier one", delivered(0, 0, 1, 2, 5), delivered(0, 0, 1), []uint64{0, 1, 2, 5}, []uint64{3, 4, 6}, 4},
		{"stored elsewhere", delivered(0, 0, 1, 2, 4), delivered(3, 3, 5), []uint64{0, 3, 4, 5}, []uint64{6}, 6},
		{"with gaps", delivered(0, 0, 7, 9), delivered(0, 3, 8), []uint64{0, 3, 7, 8, 9}, []uint64{1, 2, 4, 6, 10}, 5},
		{"of nothing", delivered(0), delivered(0, 0, 2), []uint64{0, 2}, []uint64{1, 3}, 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			seen := test.one.Seen
			if test.other.Seen.After(seen) {
				seen = test.other.Seen
			}
			test.one.Merge(test.other)
			for _, sequence := range test.has {
				if !test.one.Has(sequence) {
					t.Errorf("lacks %d", sequence)
				}
			}
			for _, sequence := range test.lacks {
				if test.one.Has(sequence) {
					t.Errorf("has %d", sequence)
				}
			}
			if test.one.Batches != test.batches || test.one.Rows != test.batches || !test.one.Seen.Equal(seen) {
				t.Errorf("got %+v", test.one)
			}
		})
	}
}
