package agent

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"pillion.dev/agent/identity"
	"pillion.dev/bus"
	"pillion.dev/internal/test/hang"
	"pillion.dev/measure"
	"pillion.dev/server/authority"
)

// registry is an in-memory authority.Registry.
type registry struct {
	mu      sync.Mutex
	keys    map[string]string
	revoked bool
}

var errTaken = errors.New("taken")

func (r *registry) Claim(name string, c authority.Certificate, _ authority.Grant) (bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.keys[name] != "" {
		return false, errTaken
	}
	r.keys[name] = c.Key
	return true, nil
}

func (r *registry) Generation(string) uint64 { return 0 }

func (r *registry) Holds(string, string) bool { return false }

func (r *registry) Renewed(name string, c authority.Certificate) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keys[name] = c.Key
	return nil
}

func (r *registry) Standing(name string, c authority.Certificate) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.revoked || r.keys[name] != c.Key {
		return errors.New("agent was revoked by the test")
	}
	return nil
}

// enrolService answers like server/web, with the real authority.
func enrolService(t *testing.T, a *authority.Authority, e *bus.Embedded) *httptest.Server {
	t.Helper()
	_, port, _ := strings.Cut(e.Addr().String(), ":")
	busURL := "tls://:" + port
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var question struct {
			Token, Name        string
			CertificateRequest []byte
		}
		if err := json.NewDecoder(r.Body).Decode(&question); err != nil {
			t.Error(err)
		}
		answer := map[string]any{"bus": busURL}
		var err error
		switch r.URL.Path {
		case "/pillion.v1.EnrolService/Enrol":
			answer["certificate"], answer["authority"], err = a.Enrol(question.Token, question.Name, question.CertificateRequest)
		case "/pillion.v1.EnrolService/Renew":
			var agent string
			if agent, err = a.Authorize(*r.TLS); err == nil {
				answer["certificate"], err = a.Renew(agent, question.CertificateRequest)
			}
		case "/pillion.v1.EnrolService/Standing":
			_, refusal := a.Authorize(*r.TLS)
			answer = map[string]any{"welcome": refusal == nil}
			if refusal != nil {
				answer["reason"] = refusal.Error()
			}
		}
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			code := map[bool]string{true: "already_exists", false: "unauthenticated"}[errors.Is(err, errTaken)]
			answer = map[string]any{"code": code, "message": err.Error()}
		}
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			t.Error(err)
		}
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.Listener = tls.NewListener(s.Listener, a.TLS()) // StartTLS would add its own certificate
	s.Start()
	t.Cleanup(s.Close)
	return s
}

// A host joins, sends, renews, is revoked and gets the reason: agent/identity and
// server/authority over real TLS, which only this room may import together.
func TestJoin(t *testing.T) {
	a, _, err := authority.Open(t.TempDir(), authority.Options{})
	if err != nil {
		t.Fatal(err)
	}
	names := &registry{keys: map[string]string{}}
	a.Use(names)
	e, err := bus.StartEmbedded(bus.EmbeddedOptions{Listen: "127.0.0.1:0", TLS: a.BusTLS(), Authorize: a.Authorize})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Shutdown)
	server, err := bus.ConnectServer(t.Context(), bus.ServerOptions{InProcess: e})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	if err := server.ServeData(func(d bus.Delivery) { d.Answer(nil) }); err != nil {
		t.Fatal(err)
	}
	web := enrolService(t, a, e)
	_, join, err := a.Secrets()
	if err != nil {
		t.Fatal(err)
	}
	options := identity.Options{Server: web.Listener.Addr().String(), Token: join, Name: "host", Folder: t.TempDir()}
	wrong := options
	wrong.Token += "x"
	if _, _, err := identity.Enrol(t.Context(), wrong); !errors.Is(err, identity.ErrToken) {
		t.Errorf("wrong token: %v", err)
	}
	own, _, err := identity.Enrol(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	options.Folder = t.TempDir()
	if _, _, err := identity.Enrol(t.Context(), options); !errors.Is(err, identity.ErrTaken) {
		t.Errorf("second host of the name: %v", err)
	}

	agent, refused := connectHost(t, own.Bus(), own.TLS())
	until(t, "connects", agent.Connected)
	batch := measure.Envelope{Key: measure.Key{Stream: "flows"}, Payload: []byte("x")}
	if err := agent.Send(t.Context(), batch); err != nil {
		t.Error(err)
	}
	if err := own.Renew(t.Context()); err != nil {
		t.Fatal(err)
	}
	e.Disconnect("host") // it reconnects with the new certificate
	until(t, "sends again", func() bool { return agent.Send(t.Context(), batch) == nil })

	names.mu.Lock()
	names.revoked = true
	names.mu.Unlock()
	e.Disconnect("host")
	select {
	case err := <-refused:
		if !strings.Contains(err.Error(), "revoked by the test") {
			t.Errorf("error of the bus: %v", err)
		}
	case <-time.After(hang.Limit):
		t.Fatal("never refused")
	}
	if err := own.Standing(t.Context()); !errors.Is(err, identity.ErrRefused) || !strings.Contains(err.Error(), "revoked by the test") {
		t.Errorf("standing: %v", err)
	}
	if err := own.Renew(t.Context()); err == nil {
		t.Error("a revoked agent renews")
	}
}

func connectHost(t *testing.T, url string, config *tls.Config) (*bus.Agent, <-chan error) {
	t.Helper()
	refused := make(chan error, 100)
	agent, err := bus.ConnectAgent(t.Context(), bus.AgentOptions{URL: url, TLS: config, Name: "host",
		Changed: func(_ bool, reason error) {
			if errors.Is(reason, bus.ErrRefused) {
				refused <- reason
			}
		}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(agent.Close)
	return agent, refused
}

func until(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(hang.Limit); !condition(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}
