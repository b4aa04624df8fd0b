package skew

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestTrend compares with the loss of quantile regression at slopes nearby.
func TestTrend(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	list := func(n int, slope float64) (points []vertex) {
		for x := range n {
			points = append(points, vertex{float64(x) + random.Float64(), 1e6 + slope*float64(x) + random.ExpFloat64()*1e5})
		}
		return points
	}
	for range 200 {
		forward, backward := list(random.IntN(80), 5e4), list(1+random.IntN(80), -5e4)
		slope, ahead, back := trend(forward, backward, -1e6, 1e6)
		loss := func(slope, ahead, back float64) (sum float64) {
			for _, side := range []struct {
				points    []vertex
				at, slope float64
			}{{forward, ahead, slope}, {backward, back, -slope}} {
				for _, p := range side.points {
					above := p.y - side.at - side.slope*p.x
					sum += max(share*above, (share-1)*above)
				}
			}
			return sum
		}
		best := func(points []vertex, slope float64) float64 {
			if len(points) == 0 {
				return 0
			}
			heights := make([]float64, len(points))
			at, _ := tilt(points, slope, heights)
			return at
		}
		least := loss(slope, ahead, back)
		for _, other := range []float64{slope - 1e4, slope - 1, slope + 1, slope + 1e4} {
			if l := loss(other, best(forward, other), best(backward, -other)); math.Abs(other) < 1e6 && l < least-1 {
				t.Errorf("%d and %d points: slope %g has a loss of %g, %g of %g", len(forward), len(backward), slope, least, other, l)
			}
		}
	}
}

func TestSmallest(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		list := make([]float64, 1+random.IntN(200))
		for i := range list {
			list[i] = float64(random.IntN(50))
		}
		k := random.IntN(len(list))
		sorted := slices.Sorted(slices.Values(list))
		if got := smallest(list, k); got != sorted[k] {
			t.Fatalf("value %d of %v is %g", k, sorted, got)
		}
	}
}
