package web

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"pillion.dev/internal/test/hang"
)

// exceeding are the sources that had something refused, and why.
type exceeding struct {
	mutex   sync.Mutex
	sources []string
	errors  []string
}

func (e *exceeding) add(source string, err error) {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	e.sources, e.errors = append(e.sources, source), append(e.errors, err.Error())
}

func (e *exceeding) has(source, text string) bool {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	for i := range e.sources {
		if e.sources[i] == source && strings.Contains(e.errors[i], text) {
			return true
		}
	}
	return false
}

// kept is a connection that stays open.
type kept struct {
	net.Conn
	from *bufio.Reader
}

// connect opens one with TLS.
func (s *site) connect(t testing.TB, addr string) *kept {
	t.Helper()
	conn, err := tls.Dial("tcp", addr, &tls.Config{RootCAs: s.roots, NextProtos: []string{"http/1.1"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(hang.Limit))
	return &kept{conn, bufio.NewReader(conn)}
}

// get sends a request and reads the answer.
func (k *kept) get(path, token string) (status int, body string, err error) {
	if token != "" {
		token = "Authorization: Bearer " + token + "\r\n"
	}
	fmt.Fprintf(k, "GET %s HTTP/1.1\r\nHost: x\r\n%s\r\n", path, token)
	return k.answer()
}

// answer reads one.
func (k *kept) answer() (status int, body string, err error) {
	response, err := http.ReadResponse(k.from, nil)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return response.StatusCode, string(text), err
}

// fill opens connections, with a token if there is one.
func (s *site) fill(t testing.TB, n int, addr, token string) (all []*kept) {
	t.Helper()
	path := map[bool]string{true: "/healthz", false: "/metrics"}[token == ""]
	for range n {
		conn := s.connect(t, addr)
		if status, body, err := conn.get(path, token); status != http.StatusOK {
			t.Fatalf("got %d %s %v", status, body, err)
		}
		all = append(all, conn)
	}
	return all
}

// newCrowdedSite is a site with 16 connections, also on a second address where all seem to come from 192.0.2.7.
func newCrowdedSite(t testing.TB, share int, proxies ...netip.Prefix) (s *site, remote string, exceeded *exceeding) {
	t.Helper()
	exceeded = &exceeding{}
	s = newSite(t, func(o *Options) {
		o.Connections, o.SourceConnections, o.Exceeded, o.Proxies = 16, share, exceeded.add, proxies
	})
	return s, s.serveAs(t, asRemote), exceeded
}

// serveAs serves another listener and returns its address.
func (s *site) serveAs(t testing.TB, as func(net.Listener) net.Listener) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(as(listener)) }()
	t.Cleanup(func() {
		listener.Close()
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return listener.Addr().String()
}

// TestQuietestConnectionMakesRoom: a source that has all its connections loses the one that was silent for longest,
// unless it has carried a token; the event names the source.
func TestQuietestConnectionMakesRoom(t *testing.T) {
	s, remote, exceeded := newCrowdedSite(t, 4)
	known := s.fill(t, 1, remote, "viewer")
	idle := s.fill(t, 3, remote, "")
	if status, _, err := idle[0].get("/healthz", ""); status != http.StatusOK {
		t.Fatalf("got %d %v", status, err)
	}
	late := s.fill(t, 1, remote, "")
	if _, err := idle[1].from.ReadByte(); err == nil {
		t.Error("the quietest connection sent something")
	}
	for name, conn := range map[string]*kept{"authenticated": known[0], "used": idle[0], "younger": idle[2], "new": late[0]} {
		if status, _, err := conn.get("/healthz", ""); status != http.StatusOK {
			t.Errorf("%s: got %d %v", name, status, err)
		}
	}
	if !exceeded.has("address 192.0.2.7", "the limit is 4 connections to the API for each source address (quotas.connections)") {
		t.Errorf("reported %v %v", exceeded.sources, exceeded.errors)
	}
	if n := s.connections.refused.Load(); n != 1 {
		t.Errorf("%d counted", n)
	}
}

// TestConnectionBeyondTheLimitIsAnswered: with text, over each protocol, if no other one can make room.
func TestConnectionBeyondTheLimitIsAnswered(t *testing.T) {
	s, remote, exceeded := newCrowdedSite(t, 4)
	s.fill(t, 4, remote, "viewer")
	local := s.addr
	s.addr = remote
	for _, protocol := range []string{"tls", "tls1"} {
		status, body := s.get(t, protocol, "/healthz", "")
		if status != http.StatusServiceUnavailable || !strings.Contains(body, "the limit is 4 connections") {
			t.Errorf("%s: got %d %s", protocol, status, body)
		}
		status, body = s.post(t, protocol, "/pillion.v1.ServerService/Health", "", "{}")
		if status != http.StatusServiceUnavailable || !strings.Contains(body, `"code":"unavailable"`) {
			t.Errorf("%s: call: got %d %s", protocol, status, body)
		}
	}
	if !exceeded.has("address 192.0.2.7", "quotas.connections") {
		t.Errorf("reported %v %v", exceeded.sources, exceeded.errors)
	}
	s.addr = local
	if status, body := s.get(t, "tls", "/metrics", "admin"); status != http.StatusOK {
		t.Errorf("on loopback: got %d %s", status, body)
	}
}

// TestConnectionsAreReservedForLoopback: an eighth, and there an operator's makes no room for others.
func TestConnectionsAreReservedForLoopback(t *testing.T) {
	s, remote, _ := newCrowdedSite(t, 100)
	s.fill(t, 14, remote, "viewer")
	if status, body, err := s.connect(t, remote).get("/healthz", ""); status != http.StatusServiceUnavailable {
		t.Errorf("beyond seven eighths: got %d %s %v", status, body, err)
	}
	eventually(t, "the refused connection ends", func() bool { return s.connections.size() == 14 })
	s.fill(t, 2, s.addr, "operator")
	s.fill(t, 2, s.addr, "operator") // in place of viewers'
	if status, body, err := s.connect(t, remote).get("/healthz", ""); status != http.StatusServiceUnavailable {
		t.Errorf("another one: got %d %s %v", status, body, err)
	}
}

func (c *connections) size() int {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return len(c.open)
}

// TestProxyHasNoLimitOfItsOwn: its connections carry the requests of many clients.
func TestProxyHasNoLimitOfItsOwn(t *testing.T) {
	s, remote, exceeded := newCrowdedSite(t, 4, netip.MustParsePrefix("192.0.2.7/32"))
	s.fill(t, 10, remote, "")
	if n := s.connections.size(); n != 10 || len(exceeded.sources) != 0 {
		t.Errorf("%d open, reported %v", n, exceeded.sources)
	}
}

// TestConnectionsAreForgotten: closed ones leave nothing behind.
func TestConnectionsAreForgotten(t *testing.T) {
	s, remote, _ := newCrowdedSite(t, 4)
	for _, conn := range append(s.fill(t, 8, remote, ""), s.fill(t, 8, s.addr, "viewer")...) {
		conn.Close()
	}
	eventually(t, "all are closed", func() bool { return s.connections.size() == 0 })
	if c := s.connections; len(c.of) != 0 || c.remote != 0 || c.answered != 0 {
		t.Errorf("left %v, %d remote, %d answered", c.of, c.remote, c.answered)
	}
}

// TestConnectionWithARequestMakesRoomLast: although its client is silent while it waits.
func TestConnectionWithARequestMakesRoomLast(t *testing.T) {
	asked, answer := make(chan struct{}), make(chan struct{})
	s := newSite(t, func(o *Options) {
		o.SourceConnections = 2
		o.Health = func(context.Context) []Part {
			close(asked)
			<-answer
			return []Part{{Name: "archive", OK: true}}
		}
		o.Now = func() time.Time { return epoch }
	})
	remote := s.serveAs(t, asRemote)
	waiting := s.connect(t, remote)
	fmt.Fprint(waiting, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
	<-asked
	idle := s.connect(t, remote) // its answer is short, so that it is sent after the request has ended
	if status, _, err := idle.get("/nothing", ""); status != http.StatusNotFound {
		t.Fatalf("got %d %v", status, err)
	}
	if status, _, err := s.connect(t, remote).get("/nothing", ""); status != http.StatusNotFound {
		t.Errorf("the next one: got %d %v", status, err)
	}
	close(answer)
	if status, _, err := waiting.answer(); status != http.StatusOK {
		t.Errorf("the waiting one: got %d %v", status, err)
	}
	if _, err := idle.from.ReadByte(); err == nil {
		t.Error("the idle one sent something")
	}
}
