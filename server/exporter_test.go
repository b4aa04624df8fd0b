package server_test

import (
	"compress/gzip"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	service "go.opentelemetry.io/proto/slim/otlp/collector/metrics/v1"
	metrics "go.opentelemetry.io/proto/slim/otlp/metrics/v1"
	"google.golang.org/protobuf/proto"

	"pillion.dev/api/pillionv1"
	"pillion.dev/measure"
	"pillion.dev/measure/flows"
	"pillion.dev/measure/histogram"
	"pillion.dev/server"
	"pillion.dev/server/otlp"
)

// receiver remembers the metrics that it got by OTLP/HTTP, by name, the last of each.
type receiver struct {
	mutex sync.Mutex
	last  map[string]*metrics.Metric
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	body, err := io.Reader(request.Body), error(nil)
	if request.Header.Get("Content-Encoding") == "gzip" {
		body, err = gzip.NewReader(body)
	}
	var message service.ExportMetricsServiceRequest
	if err == nil {
		var text []byte
		if text, err = io.ReadAll(body); err == nil {
			err = proto.Unmarshal(text, &message)
		}
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for _, resource := range message.ResourceMetrics {
		for _, scope := range resource.ScopeMetrics {
			for _, m := range scope.Metrics {
				r.last[m.Name] = m
			}
		}
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
}

func (r *receiver) metric(name string) *metrics.Metric {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.last[name]
}

func startReceiver(t *testing.T) (*receiver, string) {
	t.Helper()
	r := &receiver{last: map[string]*metrics.Metric{}}
	listener := httptest.NewServer(r)
	t.Cleanup(listener.Close)
	return r, listener.URL
}

// knownDelays sends a row with delays from 1 to 9 ms, a few of them negative, and returns its sum.
func (s *target) knownDelays(t *testing.T) flows.Sum {
	t.Helper()
	row := flows.Row{End: time.Now(), Interval: time.Second, Session: "any", Source: "a"}
	row.Counts = flows.Counts{Packets: 1000, Bytes: 100_000, Expected: 1010, Lost: 10, Duplicated: 3, Reordered: 2}
	for i := range int64(1000) {
		row.Delay.Add(1_000_000 + 8000*i)
	}
	for i := range int64(10) {
		row.Delay.Add(-1000 * i)
	}
	_, mean, _ := row.Delay.Extremes()
	row.Delay = flows.NewDistribution(row.Delay.Count, row.Delay.Min, int64(mean), row.Delay.Max, row.Delay.Histogram) // as a row has it
	agent := s.agent(t, "b")
	within(t, "a batch is stored", func() bool { return agent.Send(t.Context(), batchOf(t, &measure.Flows, 0, row.Sample(nil))) == nil })
	return row.Sum
}

// shownDelay is the server's own figure of the pair's delay.
func (s *target) shownDelay(t *testing.T) *pillionv1.Distribution {
	t.Helper()
	answer, err := s.client(t, s.operator).Flows.Windows(t.Context(), &pillionv1.WindowsRequest{Selection: &pillionv1.Selection{Source: "a", Destination: "b"}})
	if err != nil || len(answer.Windows) != 1 {
		t.Fatalf("%d windows: %v", len(answer.GetWindows()), err)
	}
	return answer.Windows[0].Delay
}

// exponentialQuantile is the upper end of the bucket with the value of rank q, ns.
func exponentialQuantile(p *metrics.ExponentialHistogramDataPoint, q float64) float64 {
	rank := math.Ceil(q * float64(p.Count))
	edge := func(index int32) float64 { return math.Exp2(math.Ldexp(float64(index), -int(p.Scale))) * 1e9 }
	for i := len(p.GetNegative().GetBucketCounts()) - 1; i >= 0; i-- {
		if rank -= float64(p.Negative.BucketCounts[i]); rank <= 0 {
			return -edge(p.Negative.Offset + int32(i))
		}
	}
	if rank -= float64(p.ZeroCount); rank <= 0 {
		return 0
	}
	for i, n := range p.GetPositive().GetBucketCounts() {
		if rank -= float64(n); rank <= 0 {
			return edge(p.Positive.Offset + int32(i) + 1)
		}
	}
	return math.NaN()
}

// compareExported checks what a receiver got of known delays.
func compareExported(t *testing.T, r *receiver, sum flows.Sum, shown *pillionv1.Distribution) {
	t.Helper()
	for name, want := range map[string]uint64{"packets": sum.Packets, "bytes": sum.Bytes, "expected_packets": sum.Expected,
		"lost_packets": sum.Lost, "duplicated_packets": sum.Duplicated, "reordered_packets": sum.Reordered} {
		points := r.metric("pillion." + name).GetSum().GetDataPoints()
		if len(points) != 1 || points[0].GetAsDouble() != float64(want) || points[0].StartTimeUnixNano == 0 {
			t.Errorf("%s: got %v, want %d", name, points, want)
		}
	}
	p := r.metric("pillion.delay").GetExponentialHistogram().DataPoints[0]
	if p.Count != sum.Delay.Count || math.Abs(p.GetSum()-sum.Delay.Total.ToFloat64(0)/1e9) > 1e-12 {
		t.Errorf("%d delays with the sum %v, want %d and %v ns", p.Count, p.GetSum(), sum.Delay.Count, sum.Delay.Total.ToFloat64(0))
	}
	for q, want := range map[float64]float64{0.5: shown.P50Ns, 0.9: shown.P90Ns, 0.99: shown.P99Ns} {
		if got := exponentialQuantile(p, q); math.Abs(got/want-1) > histogram.ExponentialError+1./32 {
			t.Errorf("quantile %v is %v, the server's own figure %v", q, got, want)
		}
	}
}

// TestExporter: a server exports the counts, sums and quantiles that it shows itself.
func TestExporter(t *testing.T) {
	r, url := startReceiver(t)
	s := startWith(t, t.TempDir()+"/data", server.Config{OTLP: otlp.Config{URL: url, Interval: time.Second}})
	sum := s.knownDelays(t)
	within(t, "delays are exported", func() bool { return r.metric("pillion.delay") != nil })
	compareExported(t, r, sum, s.shownDelay(t))
	within(t, "exports are counted", func() bool {
		return r.metric("pillion.otlp_exported_points").GetSum().GetDataPoints()[0].GetAsDouble() > 0
	})
}
