package web

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"pillion.dev/internal/test/hang"
)

// eventually waits for a condition.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), hang.Limit)
	defer cancel()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for !holds() {
		select {
		case <-ctx.Done():
			t.Fatalf("never: %s", what)
		case <-ticker.C:
		}
	}
}

func TestPages(t *testing.T) {
	tests := []struct {
		name, path, token string
		status            int
		want              string
	}{
		{"welcome", "/", "", 200, "Pillion"},
		{"openapi", "/openapi.json", "", 200, `"/pillion.v1.SessionService/CreateSession"`},
		{"healthz", "/healthz", "", 200, `"status":"ok"`},
		{"metrics without a token", "/metrics", "", 401, "no token"},
		{"metrics", "/metrics", "viewer", 200, "pillion_archive_bytes 12345"},
		{"metrics for a host", "/metrics", "join", 403, "lets hosts join"},
		{"export without a token", "/export?stream=numbers", "", 401, "no token"},
		{"nothing", "/nothing", "", 404, ""},
		{"method of a read", "/pillion.v1.AgentService/ListAgents?encoding=json&message=%7B%7D&connect=v1", "viewer", 200, `"north"`},
		{"method that changes, by GET", "/pillion.v1.AgentService/RevokeAgent?encoding=json&message=%7B%7D&connect=v1", "admin", 405, ""},
	}
	s := newSite(t)
	for _, test := range tests {
		for _, protocol := range []string{"tls", "tls1", "http1", "h2c"} {
			t.Run(test.name+" by "+protocol, func(t *testing.T) {
				status, body := s.get(t, protocol, test.path, test.token)
				if status != test.status || !strings.Contains(body, test.want) {
					t.Errorf("got %d %.500s, want %d with %q", status, body, test.status, test.want)
				}
			})
		}
	}
}

func (s *site) get(t testing.TB, protocol, path, token string) (int, string) {
	t.Helper()
	client, url := s.client(t, protocol)
	request, err := http.NewRequest("GET", url+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	return do(t, client, request)
}

func TestFailingHealth(t *testing.T) {
	s := newSite(t, func(o *Options) {
		o.Health = func(context.Context) []Part { return []Part{{Name: "bus", OK: true}, {Name: "disk", Detail: "full"}} }
	})
	status, body := s.get(t, "http1", "/healthz", "")
	if status != http.StatusServiceUnavailable || !strings.Contains(body, `"failing"`) || !strings.Contains(body, "full") {
		t.Errorf("got %d %s", status, body)
	}
}

func TestOpenMetrics(t *testing.T) {
	s := newSite(t, func(o *Options) { o.MetricsOpen = true })
	if status, _ := s.get(t, "http1", "/metrics", ""); status != http.StatusOK {
		t.Errorf("got %d", status)
	}
}

// remoteListener makes connections appear to come from another host.
type remoteListener struct{ net.Listener }

func asRemote(l net.Listener) net.Listener { return remoteListener{l} }

type strangeConn struct{ net.Conn }

func (l remoteListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	return strangeConn{conn}, err
}
func (strangeConn) RemoteAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.MustParseAddrPort("192.0.2.7:1234"))
}

func TestPlainFromAnotherHost(t *testing.T) {
	s := newSite(t)
	s.addr = s.serveAs(t, asRemote)
	for _, protocol := range []string{"http1", "h2c"} {
		status, body := s.get(t, protocol, "/healthz", "")
		if status != http.StatusUpgradeRequired || !strings.Contains(body, "use https") {
			t.Errorf("%s: got %d %s", protocol, status, body)
		}
	}
	if status, body := s.get(t, "tls", "/healthz", ""); status != http.StatusOK {
		t.Errorf("tls: got %d %s", status, body)
	}
}

// TestGarbage sends garbage to the port; it keeps serving and leaves no connection open.
func TestGarbage(t *testing.T) {
	s := newSite(t)
	s.get(t, "http1", "/healthz", "")
	before := runtime.NumGoroutine()
	random := rand.New(rand.NewPCG(1, 2))
	starts := []string{"", "\x16", "\x16\x03\x01\x00\x05hello", "GET / HTTP/1.1\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		"POST /pillion.v1.EnrolService/Enrol HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n"}
	for i := range 200 {
		conn, err := net.Dial("tcp", s.addr)
		if err != nil {
			t.Fatal(err)
		}
		rest := make([]byte, random.IntN(2000))
		for j := range rest {
			rest[j] = byte(random.Uint32())
		}
		conn.Write([]byte(starts[i%len(starts)]))
		conn.Write(rest)
		conn.Close()
	}
	if status, _ := s.get(t, "tls", "/healthz", ""); status != http.StatusOK {
		t.Errorf("got %d after garbage", status)
	}
	eventually(t, "goroutines end", func() bool { return runtime.NumGoroutine() <= before+4 })
	if text := s.log.String(); strings.Contains(text, "panic") {
		t.Errorf("log: %s", text)
	}
}

// TestSilentConnections: they do not block others, and make room for others.
func TestSilentConnections(t *testing.T) {
	const limit = 4
	s := newSite(t, func(o *Options) { o.Connections = limit })
	for range limit - 1 {
		conn, err := net.Dial("tcp", s.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	if status, _ := s.get(t, "http1", "/healthz", ""); status != http.StatusOK {
		t.Errorf("got %d with silent connections open", status)
	}
	for range limit {
		conn, err := net.Dial("tcp", s.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	eventually(t, "silent connections are closed", func() bool { return s.connections.refused.Load() >= limit-1 })
	if status, _ := s.get(t, "http1", "/healthz", ""); status != http.StatusOK {
		t.Errorf("got %d beside as many silent connections as there may be", status)
	}
}

func TestCloseEndsIdleConnections(t *testing.T) {
	before := runtime.NumGoroutine()
	var silent net.Conn
	t.Run("site", func(t *testing.T) {
		s := newSite(t)
		var err error
		if silent, err = net.Dial("tcp", s.addr); err != nil {
			t.Fatal(err)
		}
		handshake, err := tls.Dial("tcp", s.addr, &tls.Config{RootCAs: s.roots, NextProtos: []string{"h2"}})
		if err != nil {
			t.Fatal(err)
		}
		defer handshake.Close()
		if got := handshake.ConnectionState().NegotiatedProtocol; got != "h2" {
			t.Errorf("negotiated %q", got)
		}
	})
	defer silent.Close()
	silent.SetReadDeadline(time.Now().Add(headerTimeout / 2))
	if _, err := silent.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the silent connection is still open: %v", err)
	}
	eventually(t, "goroutines end", func() bool { return runtime.NumGoroutine() <= before+2 })
}

func TestNewReportsMissingOptions(t *testing.T) {
	if _, err := New(Options{}); err == nil || !strings.Contains(err.Error(), "is missing") {
		t.Errorf("got %v", err)
	}
}

func TestInternalErrorsAreNotLeaked(t *testing.T) {
	s := newSite(t)
	s.archive.mutex.Lock()
	s.archive.fault = errors.New("open /var/lib/pillion/secret: no such file")
	s.archive.mutex.Unlock()
	for _, path := range []string{"/pillion.v1.DataService/ListStreams", "/pillion.v1.ServerService/ListEvents"} {
		status, body := s.post(t, "http1", path, "viewer", "{}")
		if strings.Contains(body, "secret") || path == "/pillion.v1.DataService/ListStreams" && status != 500 {
			t.Errorf("%s: got %d %s", path, status, body)
		}
	}
	if text := s.log.String(); !strings.Contains(text, "secret") || !strings.Contains(text, "id=") {
		t.Errorf("log: %s", text)
	}
}

func TestEnrolment(t *testing.T) {
	s := newSite(t)
	status, body := s.post(t, "tls", "/pillion.v1.EnrolService/Enrol", "", `{"token":"join","name":"h1"}`)
	if status != 200 || !strings.Contains(body, `"tls://:4222"`) {
		t.Errorf("enrol: got %d %s", status, body)
	}
	if status, body = s.post(t, "tls", "/pillion.v1.EnrolService/Renew", "", "{}"); status != 401 {
		t.Errorf("renew without a certificate: got %d %s", status, body)
	}
	client, url := s.client(t, "tls")
	client.Transport.(*http.Transport).TLSClientConfig.Certificates = []tls.Certificate{newCertificate(t, "h1")}
	for path, want := range map[string]string{"Renew": "Y2VydGlmaWNhdGUgb2YgaDE=", "Standing": `"welcome":true`} {
		response, err := client.Post(url+"/pillion.v1.EnrolService/"+path, "application/json", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil || !strings.Contains(strings.ReplaceAll(string(text), " ", ""), want) {
			t.Errorf("%s: got %s, %v; want %s", path, text, err, want)
		}
	}
	if _, body = s.post(t, "http1", "/pillion.v1.EnrolService/Standing", "", "{}"); !strings.Contains(body, "no client certificate") {
		t.Errorf("standing without a certificate: got %s", body)
	}
}
