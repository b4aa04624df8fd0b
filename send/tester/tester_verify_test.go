//go:build verify

package tester

import (
	"bufio"
	"encoding/json"
	"math"
	"testing"
	"time"

	"pillion.dev/send/search"
)

// results of a benchmark's output.
func (r *rig) results() (all []Result) {
	r.Helper()
	lines := bufio.NewScanner(&r.out)
	for lines.Scan() {
		var line struct{ Result *Result }
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			r.Fatal(err)
		}
		if line.Result != nil {
			all = append(all, *line.Result)
		}
	}
	return all
}

// throughput of one size of frames. A result that the sender limits, as on a busy machine, says
// nothing about the device: the search is repeated, twice at most.
func (r *rig) throughput(o Options) (result Result) {
	r.Helper()
	for range 3 {
		if err := r.tester(o).Throughput(r.Context()); err != nil {
			r.Fatal(err)
		}
		if result = r.results()[0]; result.Searches[0].Limit != search.BySender {
			break
		}
	}
	return result
}

// TestVerifyBenchmarks: the figures of a bottleneck of known rate and queue. The oracle is the
// token bucket of the kernel, which counts frames as sizes do.
func TestVerifyBenchmarks(t *testing.T) {
	const rate, queue, bucket = 17e6, 30_000, 6000 // no rate that a bisection from 40 Mbit/s tries
	r := newRig(t)
	r.limit(rate, queue)
	o := r.options()
	o.Duration = 3 * time.Second
	o.Sizes = []int{508}
	result := r.throughput(o)
	if off := result.BitsPerSecond.Median/rate - 1; math.Abs(off) > 0.01 || result.Searches[0].Limit != search.ByDevice {
		t.Errorf("throughput %+.4f from the truth: %+v", off, result.Searches)
	} else {
		t.Logf("throughput %+.4f from the truth, %d trials", off, result.Searches[0].Trials)
	}

	o.Sizes, o.MaxRate, o.MaxFrames = []int{1514}, 0, 500
	if err := r.tester(o).BackToBack(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, result := range r.results() { // the bucket passes what its tokens hold, the queue the rest
		if want := math.Floor(queue/1514.) + math.Floor(bucket/1514.); math.Abs(result.Frames.Median-want) > 1 {
			t.Errorf("%.0f frames back to back, want %.0f", result.Frames.Median, want)
		}
	}

	o.MaxRate, o.Step = 21e6, 0.1
	if err := r.tester(o).FrameLoss(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, result := range r.results() {
		for _, s := range result.Steps[0] {
			frames := s.Load * o.Duration.Seconds()
			kept := math.Min(1, (rate/8*o.Duration.Seconds()+queue+bucket)/(frames*1514))
			if s.Valid && math.Abs(s.Loss-(1-kept)) > 0.01 {
				t.Errorf("loss %.4f at %.0f frames/s, want %.4f", s.Loss, s.Load, 1-kept)
			}
		}
	}

	o.Rate = 10e6
	if err := r.tester(o).Latency(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, result := range r.results() {
		if trial := result.Trials[0]; trial.Loss != 0 || trial.Delays.Typical <= 0 {
			t.Errorf("%+v", trial)
		}
	}
}
