package web

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// TestScrapesWait: scrapes beyond those that are answered at a time are not refused, and there are never more.
func TestScrapesWait(t *testing.T) {
	var scraping, most atomic.Int32
	begun, proceed := make(chan struct{}, 3*scrapesAtOnce), make(chan struct{})
	m := newMetrics(1, time.Now, func() []Figure {
		n := scraping.Add(1)
		defer scraping.Add(-1)
		for seen := most.Load(); n > seen && !most.CompareAndSwap(seen, n); seen = most.Load() {
		}
		begun <- struct{}{}
		<-proceed
		return nil
	})
	handlers := []http.Handler{m.handler(m.registry), m.handler(m.registry)} // as for several scopes
	var asking sync.WaitGroup
	for i := range 3 * scrapesAtOnce {
		asking.Go(func() {
			answer := httptest.NewRecorder()
			handlers[i%2].ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
			if answer.Code != http.StatusOK {
				t.Errorf("status %d: %s", answer.Code, answer.Body)
			}
		})
	}
	for range scrapesAtOnce {
		<-begun
	}
	close(proceed)
	asking.Wait()
	if n := most.Load(); n != scrapesAtOnce {
		t.Errorf("%d scrapes at a time, want %d", n, scrapesAtOnce)
	}
}

// TestPackedScrape: who accepts gzip gets the same text compressed; an error is plain text.
func TestPackedScrape(t *testing.T) {
	m := newMetrics(1, time.Now, func() []Figure { return nil })
	ask := func(h http.Handler, encoding string) *httptest.ResponseRecorder {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil)
		r.Header.Set("Accept-Encoding", encoding)
		answer := httptest.NewRecorder()
		h.ServeHTTP(answer, r)
		return answer
	}
	h := m.handler(m.registry)
	plain, packed := ask(h, "identity"), ask(h, "gzip")
	unpacked, err := gzip.NewReader(packed.Body)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(unpacked)
	const metric = "pillion_metrics_missed_rows_total 0"
	if err != nil || !strings.Contains(string(text), metric) || !strings.Contains(plain.Body.String(), metric) || packed.Header().Get("Content-Encoding") != "gzip" {
		t.Errorf("%v: %s", err, text)
	}
	failing := prometheus.NewRegistry()
	failing.MustRegister(figureCollector(func() []Figure { return []Figure{{Name: "\xff"}} }))
	if answer := ask(m.handler(failing), "gzip"); answer.Code != http.StatusInternalServerError || answer.Header().Get("Content-Encoding") != "" ||
		!strings.Contains(answer.Body.String(), "valid") {
		t.Errorf("status %d, %v: %q", answer.Code, answer.Header(), answer.Body)
	}
}
