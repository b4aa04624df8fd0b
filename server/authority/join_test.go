package authority

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// grants is a registry that records what tokens give.
type grants struct {
	mu    sync.Mutex
	names names
	given map[string]Grant
}

func (g *grants) Claim(name string, c Certificate, grant Grant) (bool, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	joined, err := g.names.Claim(name, c, grant)
	if joined {
		g.given[name] = grant
	}
	return joined, err
}

func (g *grants) Generation(string) uint64 { return 0 }

func (g *grants) Holds(name, key string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.names.Holds(name, key)
}

func (g *grants) Renewed(name string, c Certificate) error  { return g.names.Renewed(name, c) }
func (g *grants) Standing(name string, c Certificate) error { return g.names.Standing(name, c) }

func joining(t *testing.T, folder string, c *clock) (*Authority, *grants) {
	a, _ := open(t, folder, c)
	g := &grants{names: names{}, given: map[string]Grant{}}
	a.Use(g)
	return a, g
}

func joinToken(name string, bounds JoinBounds) Token {
	return Token{Name: name, Role: RoleJoin, JoinBounds: bounds}
}

// TestJoinTokenIsUsedUp: a token for two hosts lets two join, also across a restart, and
// a host that repeats its request does not count twice.
func TestJoinTokenIsUsedUp(t *testing.T) {
	folder, c := t.TempDir(), &clock{time.Now()}
	a, g := joining(t, folder, c)
	_, secret, err := a.Create(joinToken("two", JoinBounds{MaxUses: 2}))
	if err != nil {
		t.Fatal(err)
	}
	first := csr(t)
	for range 3 {
		if _, _, err := a.Enrol(secret, "a", first); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := a.Enrol(secret, "b", csr(t)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := a.Enrol(secret, "c", csr(t)); !errors.Is(err, ErrUsedUp) {
		t.Errorf("third host: %v", err)
	}
	if _, _, err := a.Enrol(secret, "a", first); err != nil {
		t.Errorf("the first host repeats its request: %v", err)
	}
	again, _ := open(t, folder, c)
	again.Use(g)
	if _, _, err := again.Enrol(secret, "c", csr(t)); !errors.Is(err, ErrUsedUp) {
		t.Errorf("third host after a restart: %v", err)
	}
	if list := again.List(); list[2].Uses != 2 || list[2].MaxUses != 2 {
		t.Errorf("got %+v", list[2])
	}
}

// TestSingleUseTokenUnderRace: of many hosts that use a token at once, one joins.
func TestSingleUseTokenUnderRace(t *testing.T) {
	a, _ := joining(t, t.TempDir(), &clock{time.Now()})
	_, secret, err := a.Create(joinToken("one", JoinBounds{MaxUses: 1}))
	if err != nil {
		t.Fatal(err)
	}
	var joined atomic.Int32
	var hosts sync.WaitGroup
	for n := range 20 {
		request := csr(t)
		hosts.Go(func() {
			if _, _, err := a.Enrol(secret, fmt.Sprintf("h%d", n), request); err == nil {
				joined.Add(1)
			} else if !errors.Is(err, ErrUsedUp) {
				t.Error(err)
			}
		})
	}
	hosts.Wait()
	if joined.Load() != 1 {
		t.Errorf("%d hosts joined with a token for one", joined.Load())
	}
}

func TestJoinTokenIsBoundToNameAndLabels(t *testing.T) {
	a, g := joining(t, t.TempDir(), &clock{time.Now()})
	labels := map[string]string{"rack": "7"}
	_, secret, err := a.Create(joinToken("rack7", JoinBounds{Agents: "rack7-*", Labels: labels}))
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		agent string
		want  error
	}{{"rack7-a", nil}, {"rack8-a", ErrBound}, {"rack7", ErrBound}, {"xrack7-a", ErrBound}} {
		if _, _, err := a.Enrol(secret, row.agent, csr(t)); !errors.Is(err, row.want) {
			t.Errorf("%s: %v", row.agent, err)
		}
	}
	labels["rack"] = "8" // the caller's map
	if got := g.given["rack7-a"]; got.Token != "rack7" || got.Labels["rack"] != "7" {
		t.Errorf("got %+v", got)
	}
	for name, token := range map[string]Token{
		"pattern": joinToken("x", JoinBounds{Agents: "rack[7]"}),
		"label":   joinToken("x", JoinBounds{Labels: map[string]string{"a b": "c"}}),
		"viewer":  {Name: "x", Role: RoleViewer, JoinBounds: JoinBounds{MaxUses: 1}},
	} {
		if _, _, err := a.Create(token); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestLostAnswerToEnrolment: a host whose answer was lost repeats its request with the
// same key, even when the token has expired since; another key does not get the name.
func TestLostAnswerToEnrolment(t *testing.T) {
	c := &clock{time.Now()}
	a, _ := joining(t, t.TempDir(), c)
	_, secret, err := a.Create(Token{Name: "brief", Role: RoleJoin, Expires: c.time.Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	request, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := a.Enrol(secret, "a", request); err != nil {
		t.Fatal(err)
	}
	if _, _, err := a.Enrol(secret, "a", csr(t)); !errors.Is(err, errTaken) {
		t.Errorf("another key: %v", err)
	}
	c.time = c.time.Add(2 * time.Hour)
	certificate, _, err := a.Enrol(secret, "a", request)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Authorize(stateOf(t, certificate)); err != nil {
		t.Error(err)
	}
	if _, _, err := a.Enrol(secret, "a", csr(t)); !errors.Is(err, ErrExpired) {
		t.Errorf("another key after the expiry: %v", err)
	}
}
