package send

import (
	"testing"

	"pillion.dev/send/dispatch"
)

// TestCut: an account that is cut counts each packet once, and each distance between two
// packets, also across the cut.
func TestCut(t *testing.T) {
	a := NewAccount(DefaultLate)
	for i := range 10 {
		at := int64(1+i) * 1000
		a.Add(dispatch.Record{Number: uint32(i), Bytes: 100, Intended: at, Handed: at + int64(i), Fate: dispatch.Sent})
		if i != 4 {
			continue
		}
		if first := a.Cut(); first.Scheduled != 5 || first.Sent != 5 || first.Bytes != 500 || first.Interdeparture.Histogram.Total() != 4 || first.Lateness.Max != 4 {
			t.Errorf("before: %+v", first)
		}
	}
	if rest := a.Cut(); rest.Sent != 5 || rest.Interdeparture.Histogram.Total() != 5 || rest.Interdeparture.Max != 1 || rest.Asked != 8e8 {
		t.Errorf("after: %+v", rest)
	}
	if none := a.Cut(); none.Scheduled != 0 || !none.Lateness.Histogram.Empty() {
		t.Errorf("empty: %+v", none)
	}
}
