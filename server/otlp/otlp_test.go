package otlp

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	service "go.opentelemetry.io/proto/slim/otlp/collector/metrics/v1"
	"google.golang.org/protobuf/proto"

	"pillion.dev/internal/test/hang"
)

// collector is one that remembers what it got.
type collector struct {
	*httptest.Server
	mutex    sync.Mutex
	messages []*service.ExportMetricsServiceRequest
	headers  []http.Header
	// faults are the answers to the next requests: 0 is a good one.
	faults []int
	answer []byte
}

func (c *collector) take(message *service.ExportMetricsServiceRequest, header http.Header) (fault int) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.headers = append(c.headers, header.Clone())
	if len(c.faults) > 0 {
		fault, c.faults = c.faults[0], c.faults[1:]
	}
	if fault == 0 {
		c.messages = append(c.messages, message)
	}
	return fault
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	unpacked, err := gzip.NewReader(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	text, err := io.ReadAll(unpacked)
	var message service.ExportMetricsServiceRequest
	if err == nil {
		err = proto.Unmarshal(text, &message)
	}
	if err != nil || r.URL.Path != "/v1/metrics" || r.Header.Get("Content-Type") != "application/x-protobuf" {
		http.Error(w, fmt.Sprint(r.URL.Path, err), http.StatusBadRequest)
		return
	}
	if fault := c.take(&message, r.Header); fault != 0 {
		w.Header().Set("Retry-After", "0")
		w.Header().Set("Location", c.URL+"/v1/metrics")
		w.WriteHeader(fault)
		return
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
	_, _ = w.Write(c.answer)
}

// start serves OTLP over a scheme.
func (c *collector) start(t *testing.T, scheme string) string {
	t.Helper()
	mux := http.NewServeMux()
	mux.Handle("/v1/metrics", c)
	c.Server = httptest.NewUnstartedServer(mux)
	c.EnableHTTP2 = true
	if strings.HasSuffix(scheme, "s") {
		c.StartTLS()
	} else {
		c.Start()
	}
	t.Cleanup(c.Close)
	return scheme + "://" + c.Listener.Addr().String()
}

// write writes a file and returns its path.
func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func authority(t *testing.T, certificate *x509.Certificate) string {
	t.Helper()
	return write(t, "ca.crt", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Raw})))
}

func newExporter(t *testing.T, c Config, gather func() ([]*dto.MetricFamily, error), log io.Writer) *Exporter {
	t.Helper()
	c, err := c.Complete()
	if err != nil {
		t.Fatal(err)
	}
	return New(Options{
		Config: c, Gather: gather, Scope: "scope", Version: "v1", Log: slog.New(slog.NewTextHandler(log, nil)),
		Resource: map[string]string{"service.name": "pillion-server", "host.name": "noc"},
	})
}

// one is a counter with a value.
func one() ([]*dto.MetricFamily, error) {
	registry := prometheus.NewRegistry()
	counter := prometheus.NewCounter(prometheus.CounterOpts{Name: "pillion_packets_total", Help: "Packets."})
	counter.Add(7)
	registry.MustRegister(counter)
	return registry.Gather()
}

func limited(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), hang.Limit)
	t.Cleanup(cancel)
	return ctx
}

func TestExport(t *testing.T) {
	answer, err := proto.Marshal(&service.ExportMetricsServiceResponse{PartialSuccess: &service.ExportMetricsPartialSuccess{RejectedDataPoints: 1}})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name, scheme string
		faults       []int
		answer       []byte
		want         Stats
		log          string
	}{
		{"http", "http", nil, nil, Stats{Points: 1}, ""},
		{"https", "https", nil, nil, Stats{Points: 1}, ""},
		{"http, busy twice", "http", []int{503, 429}, nil, Stats{Points: 1, Failed: 2}, ""},
		{"http, refused", "http", []int{400}, nil, Stats{Dropped: 1, Failed: 1}, "400 Bad Request"},
		{"http, redirected", "http", []int{307}, nil, Stats{Dropped: 1, Failed: 1}, "307 Temporary Redirect"},
		{"http, rejected in part", "http", nil, answer, Stats{Rejected: 1}, ""},
		{"http, bad answer", "http", nil, []byte{0xff}, Stats{Dropped: 1, Failed: 1}, "read answer"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c := &collector{faults: test.faults, answer: test.answer}
			config := Config{URL: c.start(t, test.scheme), HeadersFile: write(t, "headers", "# a token\nAuthorization: Bearer s3cret\n\nx-scope: a\n"), Resource: map[string]string{"host.name": "", "site": "north"}}
			if c.Certificate() != nil {
				config.CA = authority(t, c.Certificate())
			}
			var log bytes.Buffer
			e := newExporter(t, config, one, &log)
			e.Export(limited(t))
			if got := e.Stats(); got != test.want {
				t.Errorf("got %+v, want %+v, log %s", got, test.want, &log)
			}
			if got := log.String(); (got != "") != (test.log != "") || !strings.Contains(got, test.log) || strings.Contains(got, "s3cret") {
				t.Errorf("log %q, want %q", got, test.log)
			}
			header := c.headers[0]
			if header.Get("Authorization") != "Bearer s3cret" || header.Get("X-Scope") != "a" {
				t.Errorf("headers %v", header)
			}
			if len(c.messages) != 1 {
				return
			}
			r := c.messages[0].ResourceMetrics[0]
			attributes := map[string]string{}
			for _, a := range r.Resource.Attributes {
				attributes[a.Key] = a.Value.GetStringValue()
			}
			if fmt.Sprint(attributes) != "map[service.name:pillion-server site:north]" {
				t.Errorf("resource %v", attributes)
			}
			scope := r.ScopeMetrics[0]
			m := scope.Metrics[0]
			point := m.GetSum().GetDataPoints()[0]
			if scope.Scope.Name != "scope" || m.Name != "pillion.packets" || m.Unit != "{packet}" || !m.GetSum().IsMonotonic || point.GetAsDouble() != 7 ||
				point.StartTimeUnixNano == 0 || point.TimeUnixNano < point.StartTimeUnixNano {
				t.Errorf("got %v", c.messages[0])
			}
		})
	}
}

// TestExportWithoutCollector: what is not delivered until the next export is due is dropped and counted; the
// failure is logged once, and so is its end.
func TestExportWithoutCollector(t *testing.T) {
	c := &collector{}
	var log bytes.Buffer
	e := newExporter(t, Config{URL: c.start(t, "http")}, one, &log)
	c.faults = []int{503, 503}
	for range 2 {
		ctx, cancel := context.WithDeadline(t.Context(), time.Now().Add(time.Nanosecond))
		e.Export(ctx)
		cancel()
	}
	if got := e.Stats(); got != (Stats{Dropped: 2, Failed: 2}) || strings.Count(log.String(), "metrics are not exported") != 1 {
		t.Errorf("got %+v, log %s", got, &log)
	}
	c.faults = nil
	e.Export(limited(t))
	if got := e.Stats(); got != (Stats{Points: 1, Dropped: 2, Failed: 2}) || strings.Count(log.String(), "exported again") != 1 {
		t.Errorf("got %+v, log %s", got, &log)
	}
}

// TestRun: exports come at the interval, and a last one at the end.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := Config{URL: "http://127.0.0.1:1", Interval: 10 * time.Second}
		var log bytes.Buffer
		gathered := 0
		e := newExporter(t, c, func() ([]*dto.MetricFamily, error) { gathered++; return nil, errors.New("one is invalid") }, &log)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { e.Run(ctx); close(done) }()
		time.Sleep(35 * time.Second)
		synctest.Wait()
		if gathered != 3 {
			t.Errorf("%d exports in 35 s", gathered)
		}
		cancel()
		<-done
		if gathered != 4 {
			t.Errorf("%d exports", gathered)
		}
	})
}

// TestWaitsAsToldTo: a collector that asks for a long pause is left alone for so long.
func TestWaitsAsToldTo(t *testing.T) {
	requests := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests++
		w.Header().Set("Retry-After", "3600")
		w.WriteHeader(http.StatusTooManyRequests)
	}))
	defer server.Close()
	var log bytes.Buffer
	e := newExporter(t, Config{URL: server.URL}, one, &log)
	for range 3 {
		e.Export(limited(t))
	}
	if got := e.Stats(); requests != 1 || got != (Stats{Dropped: 3, Failed: 1}) {
		t.Errorf("%d requests, %+v, log %s", requests, got, &log)
	}
}

func TestRetryAfter(t *testing.T) {
	if got := retryAfter("Wed, 21 Oct 2015 07:28:10 GMT", time.Date(2015, 10, 21, 7, 28, 0, 0, time.UTC)); got != 10*time.Second {
		t.Errorf("date: %v", got)
	}
	if got := retryAfter("soon", time.Now()); got != 0 {
		t.Errorf("invalid: %v", got)
	}
}
