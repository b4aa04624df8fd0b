//go:build verify

package router

import (
	"math"
	"testing"
)

// TestVerifyQueueOfTokenBucket: on a machine that does nothing else all packets are sent
// before the bucket lets the third go, and its timer is in time.
func TestVerifyQueueOfTokenBucket(t *testing.T) {
	const n = bucketSent
	b := throughBucket(t)
	q := b.queue
	// The bucket lets the first pass.
	want := bucketGap * n * (n - 1) / 2
	if got := float64(q.WaitedNs); math.Abs(got-want) > 0.05*want {
		t.Errorf("%.1f ms of waits, want %.1f", got/1e6, want/1e6)
	}
	if q.MaxDepth < n-8 {
		t.Errorf("largest depth %d, want %d and no more than 8 below", q.MaxDepth, n)
	}
	// At the ends the bucket lets more pass at once, and packets whose departure no hook saw stay.
	for size := 2 + int(b.missed); size < n/2; size++ {
		if q.Sizes[size] < 1 || q.Sizes[size] > 2 {
			t.Errorf("%d packets left %d behind them, want 1", q.Sizes[size], size-1)
		}
	}
	before, since := queueOf(t, b.middle, "in1", false), queueOf(t, b.s.Sub(b.middle), "in1", false)
	if before.Depth < n/2 || math.Abs(float64(before.Depth)-float64(before.KernelDepth)) > 5 {
		t.Errorf("depth %d, kernel's %d", before.Depth, before.KernelDepth)
	}
	// It falls evenly from the depth to nothing: the mean is half of it while it does. A
	// packet whose departure no hook saw stays in it.
	want = float64(before.Depth) * float64(before.Depth) * bucketGap / 2
	if got := float64(since.IntegralNs); got < 0.95*want || got > 1.05*want+float64(b.missed)*float64(b.took) {
		t.Errorf("integral %.3g, want %.3g", got, want)
	}
}
