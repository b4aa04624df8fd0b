package otlp

import (
	"iter"
	"slices"
	"time"

	dto "github.com/prometheus/client_model/go"
	service "go.opentelemetry.io/proto/slim/otlp/collector/metrics/v1"
	common "go.opentelemetry.io/proto/slim/otlp/common/v1"
	metrics "go.opentelemetry.io/proto/slim/otlp/metrics/v1"
	resource "go.opentelemetry.io/proto/slim/otlp/resource/v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// Bounds of a request: collectors refuse those that are too large.
const (
	requestBytes = 1 << 20
	pieceSeries  = 250 // at most 4 kB each
)

// converter makes requests of what Prometheus would scrape.
type converter struct {
	resource []*common.KeyValue
	scope    *common.InstrumentationScope
	// at is the time of the values, started that from which counters count whose metrics do not tell.
	at, started uint64
	// unfit are the series that have no form in OTLP: histograms of which only classic buckets are known.
	unfit int
	// known are the attributes of labels, by the first one: the series of a pair share their labels.
	known map[*dto.LabelPair][]*common.KeyValue
}

func nanoseconds(t time.Time) uint64 { return uint64(max(0, t.UnixNano())) }

// requests yields the metrics in messages of bounded size, with the number of their data points.
func (c *converter) requests(families []*dto.MetricFamily) iter.Seq2[*service.ExportMetricsServiceRequest, int] {
	return func(yield func(*service.ExportMetricsServiceRequest, int) bool) {
		var all []*metrics.Metric
		size, points := 0, 0
		for _, family := range families {
			for series := range slices.Chunk(family.Metric, pieceSeries) {
				metric, n := c.metric(family, series)
				if n == 0 {
					continue
				}
				bytes := proto.Size(metric)
				if size > 0 && size+bytes > requestBytes {
					if !yield(c.message(all), points) {
						return
					}
					all, size, points = nil, 0, 0
				}
				all, size, points = append(all, metric), size+bytes, points+n
			}
		}
		if points > 0 {
			yield(c.message(all), points)
		}
	}
}

func (c *converter) message(all []*metrics.Metric) *service.ExportMetricsServiceRequest {
	return &service.ExportMetricsServiceRequest{ResourceMetrics: []*metrics.ResourceMetrics{{
		Resource:     &resource.Resource{Attributes: c.resource},
		ScopeMetrics: []*metrics.ScopeMetrics{{Scope: c.scope, Metrics: all}},
	}}}
}

// metric converts some series of a family, and returns how many it has.
func (c *converter) metric(family *dto.MetricFamily, series []*dto.Metric) (*metrics.Metric, int) {
	name, unit := nameOf(family.GetName())
	m := &metrics.Metric{Name: name, Unit: unit, Description: family.GetHelp()}
	if name == "" {
		return m, 0
	}
	const cumulative = metrics.AggregationTemporality_AGGREGATION_TEMPORALITY_CUMULATIVE
	switch family.GetType() {
	case dto.MetricType_COUNTER:
		points := c.numbers(series)
		m.Data = &metrics.Metric_Sum{Sum: &metrics.Sum{AggregationTemporality: cumulative, IsMonotonic: true, DataPoints: points}}
		return m, len(points)
	case dto.MetricType_GAUGE:
		points := c.numbers(series)
		m.Data = &metrics.Metric_Gauge{Gauge: &metrics.Gauge{DataPoints: points}}
		return m, len(points)
	case dto.MetricType_HISTOGRAM:
		points := c.histograms(series)
		m.Data = &metrics.Metric_ExponentialHistogram{ExponentialHistogram: &metrics.ExponentialHistogram{AggregationTemporality: cumulative, DataPoints: points}}
		return m, len(points)
	}
	return m, 0
}

func (c *converter) numbers(series []*dto.Metric) []*metrics.NumberDataPoint {
	points := make([]*metrics.NumberDataPoint, len(series))
	for i, one := range series {
		p := &metrics.NumberDataPoint{Attributes: c.attributes(one.Label), TimeUnixNano: c.at}
		value := one.GetGauge().GetValue()
		if counter := one.Counter; counter != nil {
			value, p.StartTimeUnixNano = counter.GetValue(), c.since(counter.CreatedTimestamp)
		}
		p.Value = &metrics.NumberDataPoint_AsDouble{AsDouble: value}
		points[i] = p
	}
	return points
}

// since is when a counter began to count.
func (c *converter) since(created *timestamppb.Timestamp) uint64 {
	if created == nil {
		return c.started
	}
	return nanoseconds(created.AsTime())
}

func (c *converter) histograms(series []*dto.Metric) (points []*metrics.ExponentialHistogramDataPoint) {
	for _, one := range series {
		h := one.Histogram
		if h.Schema == nil {
			c.unfit++
			continue
		}
		points = append(points, &metrics.ExponentialHistogramDataPoint{
			Attributes: c.attributes(one.Label), TimeUnixNano: c.at, StartTimeUnixNano: c.since(h.CreatedTimestamp),
			Count: h.GetSampleCount(), Sum: h.SampleSum, Scale: h.GetSchema(),
			ZeroCount: h.GetZeroCount(), ZeroThreshold: h.GetZeroThreshold(),
			Positive: buckets(h.PositiveSpan, h.PositiveDelta), Negative: buckets(h.NegativeSpan, h.NegativeDelta),
		})
	}
	return points
}

// buckets converts native buckets, and fills their gaps. OpenTelemetry numbers a bucket by its lower bound,
// Prometheus by its upper one.
func buckets(spans []*dto.BucketSpan, deltas []int64) *metrics.ExponentialHistogramDataPoint_Buckets {
	if len(deltas) == 0 {
		return nil
	}
	b := &metrics.ExponentialHistogramDataPoint_Buckets{Offset: spans[0].GetOffset() - 1}
	count := int64(0)
	for i, span := range spans {
		if i > 0 {
			b.BucketCounts = append(b.BucketCounts, make([]uint64, span.GetOffset())...)
		}
		for range span.GetLength() {
			count, deltas = count+deltas[0], deltas[1:]
			b.BucketCounts = append(b.BucketCounts, uint64(count))
		}
	}
	return b
}

func (c *converter) attributes(labels []*dto.LabelPair) []*common.KeyValue {
	if len(labels) == 0 {
		return nil
	}
	all, known := c.known[labels[0]]
	if known && len(all) == len(labels) {
		return all
	}
	all = make([]*common.KeyValue, len(labels))
	for i, label := range labels {
		all[i] = attribute(label.GetName(), label.GetValue())
	}
	if c.known == nil {
		c.known = map[*dto.LabelPair][]*common.KeyValue{}
	}
	c.known[labels[0]] = all
	return all
}

func attribute(name, value string) *common.KeyValue {
	return &common.KeyValue{Key: name, Value: &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: value}}}
}
