package web

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"pillion.dev/archive"
)

// metricsBuffer is how many batches the metrics may lag behind.
const metricsBuffer = 1024

const (
	// scrapesAtOnce bounds the scrapes that are answered at a time. Others wait: a refusal would be a gap in the
	// series of a Prometheus that happens to scrape beside others, which is more likely the busier the host is.
	scrapesAtOnce = 4
	// scrapeTimeout bounds a scrape with its wait, as Prometheus does by default.
	scrapeTimeout = 10 * time.Second
)

// Figure is one metric of another part of the server, for Prometheus.
type Figure struct {
	// Name in Prometheus, such as pillion_ingest_rows_total; a counter if it ends
	// in _total.
	Name, Help string
	// Labels and their values, if several figures have the same name.
	Labels map[string]string
	Value  float64
}

// metrics is the Prometheus registry.
type metrics struct {
	registry *prometheus.Registry
	pairs    *pairs
	scrapes  chan struct{} // as many as are answered now, of all scopes
	// missed rows are not in the sums; they include the rows of broken batches.
	missed, broken atomic.Uint64
}

func newMetrics(limit int, now func() time.Time, figures func() []Figure) *metrics {
	m := &metrics{registry: prometheus.NewRegistry(), pairs: newPairs(limit, now), scrapes: make(chan struct{}, scrapesAtOnce)}
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

// handler answers scrapes of a registry: 503 only if there is no answer within scrapeTimeout.
func (m *metrics) handler(registry *prometheus.Registry) http.Handler {
	exposition := packing(promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		// One invalid figure must not hide the others.
		ErrorHandling: promhttp.ContinueOnError, DisableCompression: true,
	}))
	waiting := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case m.scrapes <- struct{}{}:
			defer func() { <-m.scrapes }()
			exposition.ServeHTTP(w, r)
		case <-r.Context().Done():
		}
	})
	return http.TimeoutHandler(waiting, scrapeTimeout, fmt.Sprintf("no answer within %v: %d scrapes at a time are answered\n", scrapeTimeout, scrapesAtOnce))
}

// packing compresses the answers of a handler for who accepts gzip, at the fastest level: with promhttp's own, a third of
// the processor time of a scrape of many pairs is compression.
func packing(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Add("Vary", "Accept-Encoding")
		if !accepts(r.Header.Get("Accept-Encoding"), "gzip") {
			h.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Encoding", "gzip")
		packer, _ := gzip.NewWriterLevel(w, gzip.BestSpeed) // the level is valid
		h.ServeHTTP(packedWriter{w, packer}, r)
		if packedAnswer(w) {
			_ = packer.Close() // the timeout's writer is a buffer
		}
	})
}

// packedAnswer reports whether the body is compressed: errors are not.
func packedAnswer(w http.ResponseWriter) bool { return w.Header().Get("Content-Encoding") != "" }

// packedWriter compresses the body of an answer.
type packedWriter struct {
	http.ResponseWriter
	packer *gzip.Writer
}

// Write implements http.ResponseWriter.
func (w packedWriter) Write(text []byte) (int, error) {
	if packedAnswer(w) {
		return w.packer.Write(text)
	}
	return w.ResponseWriter.Write(text)
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
		labels := prometheus.Labels{}
		for name, value := range f.Labels {
			labels[name] = labelText(value)
		}
		description := prometheus.NewDesc(f.Name, f.Help, nil, labels)
		metric, err := prometheus.NewConstMetric(description, kind, f.Value)
		if err != nil {
			metric = prometheus.NewInvalidMetric(description, err)
		}
		to <- metric
	}
}
