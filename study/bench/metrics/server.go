package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/gzip"
	service "go.opentelemetry.io/proto/slim/otlp/collector/metrics/v1"
	"google.golang.org/protobuf/proto"

	"pillion.dev/measure"
	"pillion.dev/measure/flows"
	"pillion.dev/study/bench/fleet"
)

// answerTime bounds the wait for a scrape, and for the rows to be stored.
const answerTime = time.Minute

// start starts a server with rows of all pairs, which it has summed.
func (s *settings) start(ctx context.Context, folder string, options ...string) (*fleet.Server, error) {
	server, err := fleet.StartServer(s.server, folder, "", append([]string{"--metrics-open", "--no-oml"}, options...)...)
	if err != nil {
		return nil, err
	}
	if err := s.fill(ctx, server); err != nil {
		server.Stop()
		return nil, err
	}
	return server, nil
}

// fill sends a row of each pair.
func (s *settings) fill(ctx context.Context, server *fleet.Server) error {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	token, err := server.Secret("join.token")
	if err != nil {
		return err
	}
	agent, err := fleet.Joining{Server: server.Address, Token: token, Folder: server.Folder + ".agents"}.Join(ctx, "noc")
	if err != nil {
		return err
	}
	defer agent.Close()
	sending, err := fleet.NewSending(&measure.Flows)
	if err != nil {
		return err
	}
	stored := make(chan int, s.pairs)
	sending.Acknowledged = func(rows int, _ time.Duration) { stored <- rows }
	running, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() { sending.Run(running, agent); close(done) }()
	defer func() { stop(); <-done }()
	if err := sending.Put(&measure.Flows, s.rows()...); err != nil {
		return err
	}
	for waiting := s.pairs; waiting > 0; {
		select {
		case <-ctx.Done():
			return fmt.Errorf("fill server: %d rows are not stored: %w", waiting, ctx.Err())
		case rows := <-stored:
			waiting -= rows
		}
	}
	return nil
}

// rows have delays that are spread around another median for each pair.
func (s *settings) rows() (all []measure.Sample) {
	random := rand.New(rand.NewPCG(1, 2))
	for n := range s.pairs {
		row := flows.Row{End: time.Now(), Interval: time.Second, Session: "metrics", Source: fmt.Sprintf("host-%04d.example.net", n)}
		row.Packets, row.Expected, row.Bytes = uint64(s.packets), uint64(s.packets), uint64(s.packets)*1000
		median := 1e6 * math.Exp(3*random.Float64())
		for range s.packets {
			row.Delay.Add(int64(median * math.Exp(random.NormFloat64()/2)))
		}
		all = append(all, row.Sample(nil))
	}
	return all
}

// scrape reads /metrics as Prometheus does, compressed, and returns the size.
func scrape(ctx context.Context, server *fleet.Server, accept string) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+server.Address+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	request.Header.Set("Accept", accept)
	request.Header.Set("Accept-Encoding", "gzip")
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, fmt.Errorf("scrape: %w", err)
	}
	defer answer.Body.Close()
	kind, _, _ := strings.Cut(accept, ";")
	if answer.StatusCode != http.StatusOK || !strings.HasPrefix(answer.Header.Get("Content-Type"), kind) {
		return 0, fmt.Errorf("scrape: status %s, %s", answer.Status, answer.Header.Get("Content-Type"))
	}
	return io.Copy(io.Discard, answer.Body)
}

// sink remembers the exports that it gets: the requests of one have the same time.
type sink struct {
	*httptest.Server
	mutex   sync.Mutex
	exports map[uint64]bool
	bytes   int64
}

func newSink() *sink {
	s := &sink{exports: map[uint64]bool{}}
	s.Server = httptest.NewServer(s)
	return s
}

func (s *sink) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	text, err := io.ReadAll(r.Body)
	var at uint64
	if err == nil {
		at, err = timeOf(text)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.exports[at] = true
	s.bytes += int64(len(text))
}

// seen is how many exports there were, and their size.
func (s *sink) seen() (exports int, bytes int64) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return len(s.exports), s.bytes
}

// timeOf is the time of the first data point of a request.
func timeOf(packed []byte) (uint64, error) {
	unpacked, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return 0, err
	}
	text, err := io.ReadAll(unpacked)
	if err != nil {
		return 0, err
	}
	var message service.ExportMetricsServiceRequest
	if err := proto.Unmarshal(text, &message); err != nil {
		return 0, err
	}
	for _, resource := range message.ResourceMetrics {
		for _, scope := range resource.ScopeMetrics {
			for _, m := range scope.Metrics {
				for _, p := range append(m.GetSum().GetDataPoints(), m.GetGauge().GetDataPoints()...) {
					return p.TimeUnixNano, nil
				}
				for _, p := range m.GetExponentialHistogram().GetDataPoints() {
					return p.TimeUnixNano, nil
				}
			}
		}
	}
	return 0, errors.New("no data point")
}
