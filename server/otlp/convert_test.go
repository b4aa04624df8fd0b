package otlp

import (
	"fmt"
	"slices"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	service "go.opentelemetry.io/proto/slim/otlp/collector/metrics/v1"
	metrics "go.opentelemetry.io/proto/slim/otlp/metrics/v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// family has a native histogram for each source.
func family(sources int, h *dto.Histogram) *dto.MetricFamily {
	f := &dto.MetricFamily{Name: proto.String("pillion_delay_seconds"), Help: proto.String("Delay."), Type: dto.MetricType_HISTOGRAM.Enum()}
	for i := range sources {
		f.Metric = append(f.Metric, &dto.Metric{Label: []*dto.LabelPair{{Name: proto.String("source"), Value: proto.String(fmt.Sprint("a", i))}}, Histogram: h})
	}
	return f
}

// TestExponentialHistogram: spans become buckets without gaps, numbered by their lower bounds.
func TestExponentialHistogram(t *testing.T) {
	created := time.Unix(50, 0)
	h := &dto.Histogram{
		SampleCount: proto.Uint64(16), SampleSum: proto.Float64(-2.5), Schema: proto.Int32(5), ZeroThreshold: proto.Float64(1e-9), ZeroCount: proto.Uint64(1),
		PositiveSpan:     []*dto.BucketSpan{{Offset: proto.Int32(-3), Length: proto.Uint32(2)}, {Offset: proto.Int32(3), Length: proto.Uint32(1)}},
		PositiveDelta:    []int64{2, 1, 2},
		NegativeSpan:     []*dto.BucketSpan{{Offset: proto.Int32(4), Length: proto.Uint32(1)}},
		NegativeDelta:    []int64{5},
		CreatedTimestamp: timestamppb.New(created), Bucket: []*dto.Bucket{{CumulativeCount: proto.Uint64(3), UpperBound: proto.Float64(1)}},
	}
	c := &converter{at: 100, started: 1}
	var all []*service.ExportMetricsServiceRequest
	for message, points := range c.requests([]*dto.MetricFamily{family(1, h), {Name: proto.String("other"), Metric: []*dto.Metric{{}}}}) {
		if all = append(all, message); points != 1 {
			t.Errorf("%d points", points)
		}
	}
	if len(all) != 1 {
		t.Fatalf("%d messages", len(all))
	}
	m := all[0].ResourceMetrics[0].ScopeMetrics[0].Metrics[0]
	want := &metrics.ExponentialHistogramDataPoint{
		Attributes: (&converter{}).attributes([]*dto.LabelPair{{Name: proto.String("source"), Value: proto.String("a0")}}), StartTimeUnixNano: 50e9, TimeUnixNano: 100,
		Count: 16, Sum: proto.Float64(-2.5), Scale: 5, ZeroCount: 1, ZeroThreshold: 1e-9,
		Positive: &metrics.ExponentialHistogramDataPoint_Buckets{Offset: -4, BucketCounts: []uint64{2, 3, 0, 0, 0, 5}},
		Negative: &metrics.ExponentialHistogramDataPoint_Buckets{Offset: 3, BucketCounts: []uint64{5}},
	}
	if got := m.GetExponentialHistogram().DataPoints[0]; !proto.Equal(got, want) || m.Name != "pillion.delay" || m.Unit != "s" {
		t.Errorf("got %v, want %v", m, want)
	}
}

// TestHistogramWithoutNativeBuckets: it has no form in OTLP, and is counted.
func TestHistogramWithoutNativeBuckets(t *testing.T) {
	c := &converter{}
	for message := range c.requests([]*dto.MetricFamily{family(2, &dto.Histogram{SampleCount: proto.Uint64(1)})}) {
		t.Errorf("got %v", message)
	}
	if c.unfit != 2 {
		t.Errorf("%d are unfit", c.unfit)
	}
}

// TestRequestsAreBounded: no request is too large for a collector, and none is left out.
func TestRequestsAreBounded(t *testing.T) {
	const sources = 3000
	h := &dto.Histogram{Schema: proto.Int32(5), SampleCount: proto.Uint64(2000), SampleSum: proto.Float64(1),
		PositiveSpan: []*dto.BucketSpan{{Offset: proto.Int32(0), Length: proto.Uint32(2000)}}, PositiveDelta: slices.Concat([]int64{1}, make([]int64, 1999))}
	total, messages := 0, 0
	for message, points := range (&converter{}).requests([]*dto.MetricFamily{family(sources, h)}) {
		total, messages = total+points, messages+1
		if size := proto.Size(message); size > 2*requestBytes {
			t.Errorf("a request of %d points has %d bytes", points, size)
		}
	}
	if total != sources || messages < 2 {
		t.Errorf("%d points in %d messages", total, messages)
	}
}
