package web

import (
	"math"
	"net/http"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"google.golang.org/protobuf/types/known/timestamppb"

	"pillion.dev/measure"
	rows "pillion.dev/measure/flows"
	"pillion.dev/measure/histogram"
	"pillion.dev/measure/measuretest"
)

// exposed returns the delay histograms of /metrics in protobuf, as Prometheus asks for it.
func (s *site) exposed(t *testing.T) *dto.MetricFamily {
	t.Helper()
	client, url := s.client(t, "http1")
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer viewer")
	request.Header.Set("Accept", "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.6,text/plain;version=0.0.4;q=0.5")
	answer, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	format := expfmt.ResponseFormat(answer.Header)
	if format.FormatType() != expfmt.TypeProtoDelim {
		t.Fatalf("the format is %s", format)
	}
	decoder := expfmt.NewDecoder(answer.Body, format)
	for {
		var family dto.MetricFamily
		if err := decoder.Decode(&family); err != nil {
			return nil
		}
		if family.GetName() == "pillion_delay_seconds" {
			return &family
		}
	}
}

// TestNativeHistogram: a scraper that asks for protobuf gets native buckets with the counts, the sum and, but
// for the documented error, the quantiles of the server, beside the classic buckets.
func TestNativeHistogram(t *testing.T) {
	s := newSite(t)
	eventually(t, "metrics follow", func() bool {
		s.live.mutex.Lock()
		defer s.live.mutex.Unlock()
		return len(s.live.readers) == 2
	})
	all := someRows()
	var want rows.Sum
	for i := range all {
		want.Merge(&all[i].Sum)
	}
	publish(s, "b", &measure.Flows, measuretest.Flows(t, all...))
	var family *dto.MetricFamily
	eventually(t, "rows are summed", func() bool {
		family = s.exposed(t)
		return family != nil && family.Metric[0].Histogram.GetSampleCount() == want.Delay.Count
	})
	h := family.Metric[0].Histogram
	if h.GetSampleSum() != want.Delay.Total.ToFloat64(0)/1e9 || h.GetSchema() != histogram.ExponentialScale || h.GetZeroThreshold() != histogram.ExponentialZero ||
		len(h.Bucket) != len(delayEdges) || h.CreatedTimestamp == nil {
		t.Errorf("got %v", h)
	}
	for _, q := range []float64{0.02, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 1} {
		got, want := nativeQuantile(t, h, q), want.Delay.Quantile(q)
		if math.Abs(got-want) > 2*histogram.ExponentialError*math.Abs(want) { // both have an error
			t.Errorf("quantile %v is %v, want %v", q, got, want)
		}
	}
}

// nativeQuantile is the upper end of the bucket with the value of rank q, in ns, of what a scraper has.
func nativeQuantile(t *testing.T, h *dto.Histogram, q float64) float64 {
	t.Helper()
	type bucket struct{ end, count float64 }
	var negative, all []bucket
	expand := func(spans []*dto.BucketSpan, deltas []int64) (buckets []bucket) {
		index, count := int32(0), int64(0)
		for _, span := range spans {
			index += span.GetOffset()
			for range span.GetLength() {
				count, deltas = count+deltas[0], deltas[1:]
				buckets = append(buckets, bucket{math.Exp2(math.Ldexp(float64(index), -int(h.GetSchema()))) * 1e9, float64(count)})
				index++
			}
		}
		if len(deltas) > 0 {
			t.Errorf("%d buckets are in no span", len(deltas))
		}
		return buckets
	}
	negative = expand(h.NegativeSpan, h.NegativeDelta)
	for i := len(negative) - 1; i >= 0; i-- {
		all = append(all, bucket{-negative[i].end, negative[i].count})
	}
	all = append(append(all, bucket{0, float64(h.GetZeroCount())}), expand(h.PositiveSpan, h.PositiveDelta)...)
	rank := math.Ceil(q * float64(h.GetSampleCount()))
	for _, b := range all {
		if rank -= b.count; rank <= 0 {
			return b.end
		}
	}
	t.Errorf("the buckets have %v values fewer than the count", rank)
	return math.NaN()
}

// TestNativeHistogramOfSaturatedCounts: counts that differences cannot express have classic buckets alone,
// because a scraper refuses invalid ones with all others.
func TestNativeHistogramOfSaturatedCounts(t *testing.T) {
	h := histogram.Histogram{Bounds: []int64{-1, 0, 5}, Counts: []uint64{1, math.MaxUint64, 4}}
	desc := prometheus.NewDesc("pillion_delay_seconds", "Delay.", pairLabels, nil)
	var metric dto.Metric
	if err := newDelay(desc, &h, 1, series{prometheus.MakeLabelPairs(desc, []string{"a", "b", "s"}), timestamppb.Now()}).Write(&metric); err != nil {
		t.Fatal(err)
	}
	got := metric.Histogram
	if got.Schema != nil || got.PositiveSpan != nil || got.GetSampleCount() != math.MaxUint64 || got.Bucket[len(got.Bucket)-1].GetCumulativeCount() != math.MaxUint64 {
		t.Errorf("got %v", got)
	}
}
