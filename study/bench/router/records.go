package main

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"net/netip"

	"pillion.dev/probe/router"
	"pillion.dev/study/bench/result"
)

// Least widths of bins: the paper's, and one in which this processing time, of less than a
// microsecond, has a shape.
const (
	widthNs = 1000
	fineNs  = 50
)

// recordBytes fit all records four times: beyond a quarter of the buffer, each would wake
// the reader and interrupt the router.
func recordBytes(packets int) int {
	const one = 160 // and its header
	return 1 << bits.Len(uint(max(4*one*packets, 1<<16)-1))
}

// packets are the times of those that the profile recorded, of both flows together, and the
// delays of the test's packets.
type packets struct {
	rival               netip.Addr
	measured, noArrival uint64
	times               [4]result.Sample // t1 to t4
	stages              [4]result.Sample
}

// Names of the stages, in the profile's order.
var stageNames = [4]string{"input", "processing", "output", "transit"}

var errAll = errors.New("all records were read")

// readRecords reads as many records as the profile counted.
func readRecords(ctx context.Context, profile *router.Router, rival netip.Addr, all uint64) (*packets, error) {
	p := &packets{rival: rival}
	if all == 0 {
		return p, nil
	}
	reading, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	n := uint64(0)
	err := profile.Records(reading, func(r router.Record) error {
		p.add(&r)
		if n++; n == all {
			return errAll
		}
		return nil
	})
	if err != nil && !errors.Is(err, errAll) {
		return nil, err
	}
	if n < all {
		return nil, fmt.Errorf("read records: %d of %d in %v", n, all, patience)
	}
	for i := range p.times {
		p.times[i], p.stages[i] = result.NewSample(p.times[i]), result.NewSample(p.stages[i])
	}
	return p, ctx.Err()
}

func (p *packets) add(r *router.Record) {
	if r.T1 == 0 {
		p.noArrival++
		return
	}
	p.measured++
	for i, t := range [4]uint64{r.T1, r.T2, r.T3, r.T4} {
		p.times[i] = append(p.times[i], int64(t))
	}
	if r.Source.Addr() == p.rival {
		return
	}
	for i, ns := range [4]uint64{r.T2 - r.T1, r.T3 - r.T2, r.T4 - r.T3, r.T4 - r.T1} {
		p.stages[i] = append(p.stages[i], int64(ns))
	}
}

// put writes the figures of delays and queues. Figures 4 to 6 and 8 of the paper are the
// histograms of the first three stages, figure 7 the histograms of the queues.
func (p *packets) put(r result.Result) {
	for i, name := range stageNames {
		p.stages[i].Put(r, name)
		addBins(r, name, p.stages[i].Histogram(widthNs))
	}
	if len(p.stages[0]) == 0 {
		return
	}
	fine := p.stages[1].Histogram(fineNs)
	r["processing_peaks"] = len(peaks(fine))
	addBins(r, "processing_fine", fine)
	mean, _ := p.stages[1].Moments()
	r["processing_over_min_transit"] = mean / float64(p.stages[3][0])
	for side, name := range []string{"input", "output"} {
		came, left := p.times[2*side], p.times[2*side+1]
		found := depths(came, left)
		found.put(r, name+"_size")
		addSizes(r, name+"_size", found)
		addSizes(r, name+"_arrivals", arrivals(came, left))
		// By Little's law: arrivals times mean wait, over the time that they took.
		var waited float64
		for i := range came {
			waited += float64(left[i] - came[i]) // the sum does not depend on the order
		}
		if span := came[len(came)-1] - came[0]; span > 0 {
			r[name+"_waiting"] = waited / float64(span)
		}
	}
}
