package server_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"connectrpc.com/connect"
	"github.com/apache/arrow-go/v18/arrow"

	"pillion.dev/api"
	"pillion.dev/api/pillionv1"
	"pillion.dev/api/pillionv1/pillionv1connect"
	_ "pillion.dev/archive/duckdb" // registers duckdb:
	"pillion.dev/bus"
	"pillion.dev/internal/test/hang"
	"pillion.dev/measure"
	"pillion.dev/server"
)

// patience is the timeout of every wait for a condition.
const patience = hang.Limit

// target is a whole server in this process: real archive, real TLS, real bus.
type target struct {
	folder         string
	welcome        server.Welcome
	log            *journal
	operator, join string
	roots          *x509.CertPool
	stop           func()
}

// journal is a log that can be read while it is written.
type journal struct {
	mutex sync.Mutex
	text  bytes.Buffer
}

func (j *journal) Write(b []byte) (int, error) {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	return j.text.Write(b)
}

func (j *journal) String() string {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	return j.text.String()
}

// start runs a server until the test ends.
func start(t *testing.T, folder string) *target {
	t.Helper()
	return startWith(t, folder, server.Config{})
}

// startWith runs one with that configuration: an external NATS cluster, or another archive.
func startWith(t *testing.T, folder string, config server.Config) *target {
	t.Helper()
	s := &target{folder: folder, log: &journal{}}
	ctx, cancel := context.WithCancel(context.Background())
	ready, ended := make(chan server.Welcome, 1), make(chan error, 1)
	log := slog.New(slog.NewTextHandler(s.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	config.Folder, config.HTTP, config.NATSListen, config.OML, config.MemoryBytes = folder, "127.0.0.1:0", "127.0.0.1:0", []string{"127.0.0.1:0"}, 256<<20
	go func() {
		ended <- server.Run(ctx, config, fstest.MapFS{"index.html": {}}, log, func(w server.Welcome) { ready <- w })
	}()
	s.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("server ends: %v", err)
		}
		for _, word := range []string{"panic", "level=ERROR"} {
			if _, after, found := strings.Cut(s.log.String(), word); found {
				t.Errorf("the log has %s %.500s", word, after)
			}
		}
	})
	select {
	case s.welcome = <-ready:
	case err := <-ended:
		t.Fatal(err)
	}
	t.Cleanup(s.stop)
	s.operator, s.join = s.read(t, "admin.token"), s.read(t, "join.token")
	s.roots = x509.NewCertPool()
	s.roots.AppendCertsFromPEM([]byte(s.read(t, "ca.crt")))
	return s
}

func (s *target) read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(s.folder, name))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

// client is a user of the API.
func (s *target) client(t *testing.T, token string) *api.Client {
	t.Helper()
	client, err := api.NewClient(api.ClientOptions{
		Server: "https://" + s.welcome.HTTP, Token: token, Fingerprint: s.welcome.Fingerprint, Timeout: patience,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// token creates a token.
func (s *target) token(t *testing.T, name, role string) string {
	t.Helper()
	made, err := s.client(t, s.operator).Server.CreateToken(t.Context(), &pillionv1.CreateTokenRequest{Name: name, Role: role})
	if err != nil {
		t.Fatal(err)
	}
	return made.Secret
}

// enrol gives an agent its certificate.
func (s *target) enrol(t *testing.T, name string) *tls.Config {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	request, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: s.roots}}
	defer transport.CloseIdleConnections()
	answer, err := pillionv1connect.NewEnrolServiceClient(&http.Client{Transport: transport}, "https://"+s.welcome.HTTP).Enrol(
		t.Context(), &pillionv1.EnrolRequest{Token: s.join, Name: name, CertificateRequest: request})
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{RootCAs: s.roots, Certificates: []tls.Certificate{{Certificate: [][]byte{answer.Certificate}, PrivateKey: key}}}
}

// agent returns a connected agent.
func (s *target) agent(t *testing.T, name string) *bus.Agent {
	t.Helper()
	up := make(chan bool, 64)
	agent, err := bus.ConnectAgent(t.Context(), bus.AgentOptions{
		URL: "tls://" + s.welcome.Bus, TLS: s.enrol(t, name), Name: name,
		Changed: func(connected bool, _ error) {
			select {
			case up <- connected:
			default:
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(agent.Close)
	for connected := false; !connected; {
		select {
		case connected = <-up:
		case <-time.After(patience):
			t.Fatalf("agent %s does not connect", name)
		}
	}
	return agent
}

var numbers = measure.Schema{Name: "numbers", Fields: []measure.Field{
	measure.TimeField, {Name: "n", Type: measure.Int64}, {Name: "word", Type: measure.String},
}}

// batchOf returns one batch of a stream.
func batchOf(t *testing.T, schema *measure.Schema, sequence uint64, samples ...measure.Sample) measure.Envelope {
	t.Helper()
	var batch measure.Envelope
	stream, err := measure.NewStream(schema, measure.StreamOptions{}, func(s *measure.Schema, r arrow.RecordBatch) (err error) {
		batch, err = measure.Encode(measure.Key{Stream: s.Name, Epoch: 7, Sequence: sequence}, r)
		batch.Oldest = 0
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, sample := range samples {
		if err := stream.Append(sample); err != nil {
			t.Fatal(err)
		}
	}
	if err := stream.Close(); err != nil {
		t.Fatal(err)
	}
	return batch
}

// feed stores batches of ten numbers each, as an honest agent does.
func feed(t *testing.T, agent *bus.Agent, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		var samples []measure.Sample
		for n := range 10 {
			samples = append(samples, measure.Sample{
				measure.TimeValue(time.Now()), measure.Int64Value(int64(10*i + n)), measure.StringValue("word"),
			})
		}
		e := batchOf(t, &numbers, uint64(i), samples...)
		within(t, "an honest batch is stored", func() bool { return agent.Send(t.Context(), e) == nil })
	}
}

// within waits for a condition.
func within(t *testing.T, what string, holds func() bool) {
	t.Helper()
	ticks := time.NewTicker(20 * time.Millisecond)
	defer ticks.Stop()
	for end := time.Now().Add(patience); !holds(); <-ticks.C {
		if time.Now().After(end) {
			t.Fatalf("timed out waiting until %s", what)
		}
	}
}

// query returns the answer as texts, or the error.
func query(ctx context.Context, client *api.Client, sql string) ([][]string, error) {
	stream, err := client.Data.Query(ctx, &pillionv1.QueryRequest{Sql: sql})
	if err != nil {
		return nil, err
	}
	defer stream.Close()
	var rows [][]string
	for stream.Receive() {
		for _, row := range stream.Msg().Rows {
			var texts []string
			for _, value := range row.Values {
				texts = append(texts, strings.TrimSpace(value.String()))
			}
			rows = append(rows, texts)
		}
	}
	return rows, stream.Err()
}

// number returns the single number that a query yields, or -1.
func number(t *testing.T, client *api.Client, sql string) int64 {
	t.Helper()
	stream, err := client.Data.Query(t.Context(), &pillionv1.QueryRequest{Sql: sql})
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	n := int64(-1)
	for stream.Receive() {
		for _, row := range stream.Msg().Rows {
			n = row.Values[0].GetInt()
		}
	}
	if err := stream.Err(); err != nil && connect.CodeOf(err) != connect.CodeNotFound {
		t.Logf("%s: %v", sql, err)
	}
	return n
}

// use has the resources that a server uses.
type use struct {
	goroutines, files int
	heap              uint64
}

func used(t *testing.T) use {
	t.Helper()
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	runtime.GC()
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	return use{runtime.NumGoroutine(), len(files), memory.HeapAlloc}
}

// settled waits until the server uses hardly more resources than before.
func settled(t *testing.T, before use) {
	t.Helper()
	var now use
	within(t, "the server uses no more than before", func() bool {
		now = used(t)
		ok := now.goroutines <= before.goroutines+20 && now.files <= before.files+10 && now.heap <= before.heap+64<<20
		if !ok {
			t.Logf("before %+v, now %+v", before, now)
		}
		return ok
	})
}
