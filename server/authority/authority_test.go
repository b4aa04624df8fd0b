package authority

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// clock is set by the test.
type clock struct{ time time.Time }

func (c *clock) now() time.Time { return c.time }

func open(t *testing.T, folder string, c *clock, hosts ...string) (*Authority, bool) {
	t.Helper()
	a, created, err := Open(folder, Options{Now: c.now, Hosts: hosts})
	if err != nil {
		t.Fatal(err)
	}
	return a, created
}

// names is a registry in memory.
type names map[string]string

var errTaken = errors.New("taken")

func (n names) Claim(name string, c Certificate, _ Grant) (bool, error) {
	if n[name] != "" {
		if n[name] == c.Key {
			return false, nil
		}
		return false, errTaken
	}
	n[name] = c.Key
	return true, nil
}

func (n names) Generation(string) uint64 { return 0 }

func (n names) Holds(name, key string) bool { return n[name] == key }

func (n names) Renewed(name string, c Certificate) error { n[name] = c.Key; return nil }

func (n names) Standing(name string, c Certificate) error {
	if n[name] != c.Key {
		return errors.New("agent is revoked")
	}
	return nil
}

func csr(t *testing.T) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return csrOf(t, key)
}

func csrOf(t *testing.T, key any) []byte {
	t.Helper()
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{DNSNames: []string{"evil"}}, key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

func stateOf(t *testing.T, der []byte) tls.ConnectionState {
	t.Helper()
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf}}
}

func TestOpenKeepsKeysAndTokens(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "data")
	c := &clock{time.Now()}
	first, created := open(t, folder, c)
	operator, join, err := first.Secrets()
	if !created || err != nil {
		t.Fatalf("created %t, %v", created, err)
	}
	second, created := open(t, folder, c)
	if created || second.Fingerprint() != first.Fingerprint() {
		t.Error("the second start created keys or tokens again")
	}
	for secret, role := range map[string]string{operator: RoleAdmin, join: RoleJoin} {
		if token, err := second.Check(secret); err != nil || token.Role != role || token.Name != role {
			t.Errorf("got %+v, %v, want name and role %s", token, err, role)
		}
	}
	if !strings.HasPrefix(join, "pj_"+first.Fingerprint()+"_") || !strings.HasPrefix(operator, "pt_") || len(operator) != 35 {
		t.Errorf("secrets %q, %q", operator, join)
	}
	err = filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if want := map[bool]fs.FileMode{true: 0o700, false: 0o600}[entry.IsDir()]; err == nil && info.Mode().Perm() != want {
			t.Errorf("%s has mode %o, want %o", path, info.Mode().Perm(), want)
		}
		if text, err := os.ReadFile(path); err == nil && !strings.HasSuffix(path, ".token") &&
			(strings.Contains(string(text), operator) || strings.Contains(string(text), join)) {
			t.Errorf("%s has a secret", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestOpenFaults(t *testing.T) {
	for _, row := range []struct{ name, file, text, want string }{
		{"authority", "authority/authority.pem", "nonsense", "authority.pem"},
		{"tokens", "tokens.json", "{", "tokens.json"},
	} {
		t.Run(row.name, func(t *testing.T) {
			folder := t.TempDir()
			open(t, folder, &clock{time.Now()})
			if err := os.WriteFile(filepath.Join(folder, row.file), []byte(row.text), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.RemoveAll(filepath.Join(folder, row.file+".previous")); err != nil {
				t.Fatal(err)
			}
			if _, _, err := Open(folder, Options{}); err == nil || !strings.Contains(err.Error(), row.want) {
				t.Errorf("got %v, want %q", err, row.want)
			}
		})
	}
	folder := t.TempDir()
	open(t, folder, &clock{time.Now().Add(-11 * 365 * 24 * time.Hour)})
	if _, _, err := Open(folder, Options{}); err == nil || !strings.Contains(err.Error(), "expired") {
		t.Errorf("authority of eleven years ago: %v", err)
	}
}

func TestServerCertificateIsRenewed(t *testing.T) {
	folder := t.TempDir()
	c := &clock{time.Now()}
	a, _ := open(t, folder, c)
	serial := func(a *Authority) string {
		t.Helper()
		shown, err := a.TLS().GetCertificate(nil)
		if err != nil || len(shown.Certificate) != 2 {
			t.Fatalf("got %v, %v", shown, err)
		}
		if err := shown.Leaf.VerifyHostname("localhost"); err != nil {
			t.Error(err)
		}
		return shown.Leaf.SerialNumber.String()
	}
	first := serial(a)
	if again, _ := open(t, folder, c); serial(again) != first {
		t.Error("renewed too early")
	}
	named, _ := open(t, folder, c, "noc.example", "192.0.2.1")
	second := serial(named)
	shown, _ := named.BusTLS().GetCertificate(nil)
	if second == first || shown.Leaf.VerifyHostname("noc.example") != nil || shown.Leaf.VerifyHostname("192.0.2.1") != nil {
		t.Error("not renewed for new names")
	}
	c.time = c.time.Add(340 * 24 * time.Hour)
	if serial(named) == second {
		t.Error("not renewed while it runs, 25 days before it expires")
	}
	if _, err := named.ClientTLS().GetClientCertificate(nil); err != nil {
		t.Error(err)
	}
}

func TestVerifyAgent(t *testing.T) {
	c := &clock{time.Now()}
	a, _ := open(t, t.TempDir(), c)
	other, _ := open(t, t.TempDir(), c)
	sign := func(a *Authority, name string) []byte {
		der, _, err := a.SignAgent(csr(t), name)
		if err != nil {
			t.Fatal(err)
		}
		return der
	}
	good := sign(a, "a")
	server, _ := a.TLS().GetCertificate(nil)
	client, err := a.ClientTLS().GetClientCertificate(nil)
	if err != nil {
		t.Fatal(err)
	}
	year := 366 * 24 * time.Hour
	for _, row := range []struct {
		name   string
		state  tls.ConnectionState
		later  time.Duration
		agent  string
		refuse string
	}{
		{"good", stateOf(t, good), 0, "a", ""},
		{"none", tls.ConnectionState{}, 0, "", "no certificate"},
		{"of another server", stateOf(t, sign(other, "a")), 0, "", "not signed by this server's authority"},
		{"authority itself", stateOf(t, a.Certificate()), 0, "", "is not an agent"},
		{"server's", stateOf(t, server.Certificate[0]), 0, "", "is not an agent"},
		{"server's on the bus", stateOf(t, client.Certificate[0]), 0, "", "is not an agent"},
		{"expired", stateOf(t, good), year, "a", "expired on " + c.time.Add(365*24*time.Hour).UTC().Format("2006-01-02")},
		{"not yet", stateOf(t, good), -year, "a", ""}, // it may be renewed
	} {
		t.Run(row.name, func(t *testing.T) {
			c.time = c.time.Add(row.later)
			defer func() { c.time = c.time.Add(-row.later) }()
			peer, err := a.VerifyAgent(row.state)
			if peer.Name != row.agent || (err == nil) != (row.refuse == "") {
				t.Fatalf("got %+v, %v", peer, err)
			}
			if err != nil && (!errors.Is(err, ErrCertificate) || !strings.Contains(err.Error(), row.refuse)) {
				t.Errorf("got %v, want %q", err, row.refuse)
			}
		})
	}
}

func TestSignAgent(t *testing.T) {
	a, _ := open(t, t.TempDir(), &clock{time.Now()})
	weak, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	damaged := csr(t)
	damaged[len(damaged)-1] ^= 1
	for _, row := range []struct {
		name, agent string
		request     []byte
	}{
		{"no request", "a", nil},
		{"nonsense", "a", []byte("nonsense")},
		{"large", "a", make([]byte, requestLimit+1)},
		{"RSA", "a", csrOf(t, weak)},
		{"signature", "a", damaged},
		{"empty name", "", csr(t)},
		{"wildcard", "*", csr(t)},
		{"path", "../a", csr(t)},
		{"dots", "a.b", csr(t)},
	} {
		t.Run(row.name, func(t *testing.T) {
			if _, _, err := a.SignAgent(row.request, row.agent); !errors.Is(err, ErrInvalid) {
				t.Errorf("got %v", err)
			}
		})
	}
	der, issued, err := a.SignAgent(csr(t), "a")
	if err != nil {
		t.Fatal(err)
	}
	leaf := stateOf(t, der).PeerCertificates[0]
	if leaf.Subject.CommonName != "a" || leaf.DNSNames != nil || leaf.IsCA || !leaf.NotAfter.Equal(issued.Expires) || leaf.SerialNumber.Text(16) != issued.Serial {
		t.Errorf("got %+v", leaf.Subject)
	}
}

func TestEnrol(t *testing.T) {
	c := &clock{time.Now()}
	a, _ := open(t, t.TempDir(), c)
	operator, join, err := a.Secrets()
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := a.Enrol(join, "a", csr(t)); err == nil {
		t.Error("enrols without a registry")
	}
	registry := names{"taken": "1"}
	a.Use(registry)
	for _, row := range []struct {
		name, token, agent string
		want               error
	}{
		{"good", join, "a", nil},
		{"again", join, "a", errTaken},
		{"taken", join, "taken", errTaken},
		{"unknown token", join + "x", "b", ErrUnknown},
		{"no token", "", "b", ErrUnknown},
		{"operator's token", operator, "b", ErrRole},
		{"name", join, "B", ErrInvalid},
	} {
		t.Run(row.name, func(t *testing.T) {
			certificate, authority, err := a.Enrol(row.token, row.agent, csr(t))
			if !errors.Is(err, row.want) || (err == nil) != (len(certificate) > 0 && len(authority) > 0) {
				t.Fatalf("got %v", err)
			}
			if err != nil {
				return
			}
			if agent, err := a.Authorize(stateOf(t, certificate)); agent != row.agent || err != nil {
				t.Errorf("authorize: %q, %v", agent, err)
			}
			renewed, err := a.Renew(row.agent, csr(t))
			if err != nil {
				t.Fatal(err)
			}
			if agent, err := a.Authorize(stateOf(t, renewed)); agent != row.agent || err != nil {
				t.Errorf("authorize the renewed: %q, %v", agent, err)
			}
			if agent, err := a.Authorize(stateOf(t, certificate)); agent != row.agent || err == nil {
				t.Errorf("authorize the old: %q, %v", agent, err)
			}
		})
	}
	if len(registry) != 2 {
		t.Errorf("names %v", registry)
	}
}

func FuzzSignAgent(f *testing.F) {
	a, _, err := Open(f.TempDir(), Options{})
	if err != nil {
		f.Fatal(err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		f.Fatal(err)
	}
	request, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(request, "a")
	f.Fuzz(func(t *testing.T, request []byte, name string) {
		der, _, err := a.SignAgent(request, name)
		if err != nil {
			return
		}
		if peer, err := a.VerifyAgent(stateOf(t, der)); err != nil || peer.Name != name {
			t.Errorf("signed %q: %+v, %v", name, peer, err)
		}
	})
}
