package web

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"pillion.dev/archive"
)

// metricsBuffer is how many batches the metrics may lag behind.
const metricsBuffer = 1024

// Figure is one metric of another part of the server, for Prometheus.
type Figure struct {
	// Name in Prometheus, such as pillion_ingest_rows_total; a counter if it ends
	// in _total.
	Name, Help string
	// Label and its value, if several figures have the same name.
	Label, LabelValue string
	Value             float64
}

// metrics is the Prometheus registry.
type metrics struct {
	registry *prometheus.Registry
	pairs    *pairs
	// missed rows are not in the sums; they include those of broken batches.
	missed, broken atomic.Uint64
}

func newMetrics(limit int, now func() time.Time, figures func() []Figure) *metrics {
	m := &metrics{registry: prometheus.NewRegistry(), pairs: newPairs(limit, now)}
	m.registry.MustRegister(m.pairs, figureCollector(figures),
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "pillion_metrics_missed_rows_total",
			Help: "Rows of flows that are not included in these metrics because aggregation fell behind or they were malformed.",
		}, func() float64 { return float64(m.missed.Load()) }))
	return m
}

// follow sums live rows until the context ends.
func (m *metrics) follow(ctx context.Context, live Live, log *slog.Logger) {
	subscription := live.SubscribeOwn([]string{"flows"}, metricsBuffer)
	defer subscription.Close()
	for {
		select {
		case <-ctx.Done():
			return
		case batch, open := <-subscription.Batches():
			if !open {
				return
			}
			if err := m.pairs.add(batch); err != nil {
				log.Error("sum rows for metrics", "agent", batch.Agent, "error", err)
				m.broken.Add(uint64(batch.Record.NumRows()))
			}
			batch.Record.Release()
			m.missed.Store(subscription.Missed() + m.broken.Load())
		}
	}
}

// scoped serves the metrics of the pairs in a scope, and nothing about the server.
func (m *metrics) scoped(scope *archive.Scope) http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(scopedPairs{m.pairs, scope})
	return m.handler(registry)
}

func (m *metrics) handler(registry *prometheus.Registry) http.Handler {
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		// One invalid figure must not hide the others.
		ErrorHandling: promhttp.ContinueOnError, MaxRequestsInFlight: 4, Timeout: 10 * time.Second,
	})
}

// figureCollector asks the other parts of the server at each scrape.
type figureCollector func() []Figure

// Describe sends nothing: the set of figures is only known at a scrape.
func (figureCollector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c figureCollector) Collect(to chan<- prometheus.Metric) {
	for _, f := range c() {
		kind := prometheus.GaugeValue
		if strings.HasSuffix(f.Name, "_total") {
			kind = prometheus.CounterValue
		}
		var names, values []string
		if f.Label != "" {
			names, values = []string{f.Label}, []string{labelText(f.LabelValue)}
		}
		description := prometheus.NewDesc(f.Name, f.Help, names, nil)
		metric, err := prometheus.NewConstMetric(description, kind, f.Value, values...)
		if err != nil {
			metric = prometheus.NewInvalidMetric(description, err)
		}
		to <- metric
	}
}
