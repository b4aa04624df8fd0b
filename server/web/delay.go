package web

import (
	"math"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/proto"

	"pillion.dev/measure/histogram"
)

// delayEdges are the upper bounds of the classic histogram's buckets, in nanoseconds. The first
// is for the negative delays of clocks that are not synchronised.
var delayEdges = func() []int64 {
	edges := []int64{0}
	for decade := int64(10_000); decade <= 1_000_000_000; decade *= 10 {
		edges = append(edges, decade, 2*decade, 5*decade)
	}
	return append(edges, 10_000_000_000)
}()

// delayMetric is the histogram of a pair: with classic buckets, which the text format has, and with native
// ones, which only protobuf has. Prometheus takes the native ones where it is told to.
type delayMetric struct {
	desc      *prometheus.Desc
	labels    []*dto.LabelPair
	histogram dto.Histogram
}

// Desc implements prometheus.Metric.
func (m *delayMetric) Desc() *prometheus.Desc { return m.desc }

// Write implements prometheus.Metric.
func (m *delayMetric) Write(out *dto.Metric) error {
	out.Label, out.Histogram = m.labels, &m.histogram
	return nil
}

// newDelay is the metric of a histogram.
func newDelay(desc *prometheus.Desc, h *histogram.Histogram, sum float64, of series) *delayMetric {
	m := &delayMetric{desc: desc, labels: of.labels}
	total := h.Total()
	m.histogram.SampleCount, m.histogram.SampleSum = &total, &sum
	m.histogram.CreatedTimestamp = of.started
	m.histogram.Bucket = classicBuckets(h)
	if total <= math.MaxInt64 { // differences of counts have a sign
		m.setNative(h.Exponential())
	}
	return m
}

// classicBuckets count how many values are at or below each edge.
func classicBuckets(h *histogram.Histogram) []*dto.Bucket {
	buckets := make([]dto.Bucket, len(delayEdges))
	upTo, pointers := make([]uint64, len(delayEdges)), make([]*dto.Bucket, len(delayEdges))
	count, next := uint64(0), 0
	for i, edge := range delayEdges {
		for ; next < len(h.Bounds) && h.Bounds[next] <= edge; next++ {
			count += min(h.Counts[next], math.MaxUint64-count)
		}
		upTo[i] = count
		buckets[i].UpperBound, buckets[i].CumulativeCount = proto.Float64(float64(edge)/1e9), &upTo[i]
		pointers[i] = &buckets[i]
	}
	return pointers
}

func (m *delayMetric) setNative(e histogram.Exponential) {
	m.histogram.Schema = proto.Int32(histogram.ExponentialScale)
	m.histogram.ZeroThreshold, m.histogram.ZeroCount = proto.Float64(histogram.ExponentialZero), &e.Zero
	m.histogram.PositiveSpan, m.histogram.PositiveDelta = spans(e.Positive)
	m.histogram.NegativeSpan, m.histogram.NegativeDelta = spans(e.Negative)
}

// gapMost is the most empty buckets that are written out rather than begin another span.
const gapMost = 2

// spans are runs of buckets, and the differences of the counts in them. Prometheus numbers a bucket by its
// upper bound.
func spans(buckets []histogram.ExponentialBucket) (runs []*dto.BucketSpan, deltas []int64) {
	next, before := int32(0), int64(0)
	add := func(count int64) {
		*runs[len(runs)-1].Length++
		deltas = append(deltas, count-before)
		before = count
	}
	for i, b := range buckets {
		gap := b.Index + 1 - next
		if i == 0 || gap > gapMost {
			runs = append(runs, &dto.BucketSpan{Offset: proto.Int32(gap), Length: proto.Uint32(0)})
			gap = 0
		}
		for range gap {
			add(0)
		}
		add(int64(b.Count))
		next = b.Index + 2
	}
	return runs, deltas
}
