package codec_test

import (
	"math/rand/v2"
	"testing"

	"pillion.dev/wire/test/codec"
)

// An account is a destination's view of a flow.
type account struct{ lost, duplicated int }

// literal counts arrivals per first number and takes the next first number for
// the end of the burst, as one must without the single bit. It reads arrivals
// in order, and end as the number after the last.
func literal(arrivals []uint32, end uint32) (a account) {
	for i := 0; i < len(arrivals); {
		first, count := arrivals[i], 0
		for ; i < len(arrivals) && arrivals[i] == first; i++ {
			count++
		}
		next := end
		if i < len(arrivals) {
			next = arrivals[i]
		}
		expected := int(next - first)
		a.lost += max(0, expected-count)
		a.duplicated += max(0, count-expected)
	}
	return a
}

// flagged knows that every number belongs to one packet.
func flagged(arrivals []uint32, end uint32) (a account) {
	next := arrivals[0]
	for _, number := range arrivals {
		if number < next {
			a.duplicated++
			continue
		}
		a.lost += int(number - next)
		next = number + 1
	}
	a.lost += int(end - next)
	return a
}

// TestSingleBit shows the purpose of the single bit. Without it, a duplicated packet
// followed by a lost one looks like a burst of two: of a million packets that happens to
// 1 % of 1 %. The oracle is the simulation.
func TestSingleBit(t *testing.T) {
	const packets, lossRate, duplicateRate = 1_000_000, 0.01, 0.01
	random := rand.New(rand.NewPCG(5, 7679))
	const start = 3 * codec.FlowStride
	var truth account
	arrivals := []uint32{start} // the first and the last arrive, so that both counts see the whole flow
	for number := uint32(start + 1); number < start+packets-1; number++ {
		switch {
		case random.Float64() < lossRate:
			truth.lost++
		case random.Float64() < duplicateRate:
			truth.duplicated++
			arrivals = append(arrivals, number, number)
		default:
			arrivals = append(arrivals, number)
		}
	}
	arrivals = append(arrivals, start+packets-1)
	if got := flagged(arrivals, start+packets); got != truth {
		t.Errorf("with the bit %+v, truth %+v", got, truth)
	}
	got := literal(arrivals, start+packets)
	t.Logf("truth %+v, without the bit %+v", truth, got)
	// Expected: packets × 0.99 × 0.01 × 0.01 = 99, give or take 5 standard deviations.
	for _, hidden := range []int{truth.lost - got.lost, truth.duplicated - got.duplicated} {
		if hidden < 50 || hidden > 150 {
			t.Errorf("without the bit %d events are hidden, expected about 99", hidden)
		}
	}
}
