package pillion

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"pillion.dev/api"
)

func (p *program) write(name, text string, mode os.FileMode) string {
	p.t.Helper()
	path := filepath.Join(p.home, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		p.t.Fatal(err)
	}
	return path
}

const configName = ".config/pillion/config.yaml"

func TestConfig(t *testing.T) {
	_, server := newFake(t)
	_, other := newFake(t)
	for _, test := range []struct {
		name     string
		text     string
		mode     os.FileMode
		args     string
		code     int
		contains string
	}{
		{"token", "server: SERVER\ntoken: " + secret + "\n", 0o600, "session list", 0, "web"},
		{"output", "server: SERVER\ntoken: " + secret + "\noutput: json\n", 0o600, "session list", 0, `"state": "running"`},
		{"flag over file", "server: SERVER\ntoken: wrong\noutput: json\n", 0o600, "session list --token " + secret + " -o csv", 0, "web,running"},
		{"others can read it", "server: SERVER\ntoken: " + secret + "\n", 0o644, "session list", 0, "chmod 600"},
		{"unknown key", "server: SERVER\ntokn: " + secret + "\n", 0o600, "session list", 2, "line 2: unknown field \"tokn\""},
		{"not YAML", "token: [" + secret + "\n", 0o600, "session list", 2, "invalid configuration"},
		{"bad output", "output: xml\n", 0o600, "session list", 2, "xml"},
		{"token is for its server only", "server: SERVER\ntoken: " + secret + "\n", 0o600, "session list --server OTHER", 1, "no valid token"},
		{"token of two words", "server: SERVER\ntoken: a " + secret + "\n", 0o600, "session list", 2, "contains spaces"},
		{"named file is missing", "", 0o600, "session list --config nowhere.yaml", 1, "check the path"},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := newProgram(t, nil)
			p.environment = append(p.environment, "PILLION_CA="+p.write("ca.crt", certificateOf(server), 0o600))
			replace := strings.NewReplacer("SERVER", server.URL, "OTHER", other.URL)
			p.write(configName, replace.Replace(test.text), test.mode)
			out, stderr, code := p.run(strings.Fields(replace.Replace(test.args))...)
			if code != test.code || !strings.Contains(out+stderr, test.contains) {
				t.Fatalf("exit %d, want %d with %q\n%s%s", code, test.code, test.contains, out, stderr)
			}
			if strings.Contains(out+stderr, secret) {
				t.Fatalf("the token is in\n%s%s", out, stderr)
			}
		})
	}
}

func TestTokenOfThisMachine(t *testing.T) {
	server, _ := secure(t)
	p := newProgram(t, nil)
	p.write("data/admin.token", secret+"\n", 0o600)
	p.write("data/ca.crt", certificateOf(server), 0o600)
	p.environment = append(p.environment, "PILLION_SERVER="+server.Listener.Addr().String(), "PILLION_DATA="+filepath.Join(p.home, "data"))
	if _, stderr, code := p.run("session", "list"); code != 0 {
		t.Fatalf("with the server's own token: exit %d, %s", code, stderr)
	}
	authority := p.write("ca.crt", certificateOf(server), 0o600)
	p.environment = append(p.environment, "PILLION_TOKEN=wrong")
	file := p.write("mine.token", secret, 0o600)
	if _, stderr, code := p.run("session", "list", "--token-file", file, "--ca", authority, "--server", server.URL); code != 0 {
		t.Fatalf("the environment takes precedence over --token-file: exit %d, %s", code, stderr)
	}
}

// TestTokenOfThisMachineIsNotSentToOthers: whoever else listens on the port of the server
// does not learn the administrator's token.
func TestTokenOfThisMachineIsNotSentToOthers(t *testing.T) {
	var told atomic.Bool
	listen := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			told.Store(true)
		}
	})
	plain, other := httptest.NewServer(listen), httptest.NewUnstartedServer(listen)
	other.Config.ErrorLog = log.New(io.Discard, "", 0) // of clients that do not trust it
	other.TLS = &tls.Config{Certificates: []tls.Certificate{selfSigned(t)}}
	other.StartTLS()
	t.Cleanup(plain.Close)
	t.Cleanup(other.Close)
	server, _ := secure(t)
	p := newProgram(t, nil)
	p.write("data/admin.token", secret+"\n", 0o600)
	p.write("data/ca.crt", certificateOf(server), 0o600)
	p.environment = append(p.environment, "PILLION_DATA="+filepath.Join(p.home, "data"))
	for name, test := range map[string]struct{ server, want string }{
		"without TLS":           {plain.Listener.Addr().String(), "HTTPS client"},
		"without TLS, as asked": {plain.URL, "without TLS"},
		"other authority":       {other.Listener.Addr().String(), "certificate"},
	} {
		if _, stderr, code := p.run("session", "list", "--server", test.server); code == 0 || told.Load() || !strings.Contains(stderr, test.want) || strings.Contains(stderr, secret) {
			t.Errorf("%s: exit %d, told %v: %s", name, code, told.Load(), stderr)
		}
	}
}

// TestTokenWasSentWithoutTLS: no command sends a token to a listener on loopback without a
// certificate.
func TestTokenWasSentWithoutTLS(t *testing.T) {
	var told atomic.Bool
	plain := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			told.Store(true)
		}
	}))
	t.Cleanup(plain.Close)
	address := plain.Listener.Addr().String()
	p := newProgram(t, nil)
	file := p.write("mine.token", secret, 0o600)
	for _, line := range []string{
		"session list --token-file " + file + " --server " + address, "session list --token-file " + file + " --server " + plain.URL,
		"session list --token " + secret + " --server " + address, "session list --token " + secret + " --server " + plain.URL,
		"login " + address + " --token-file " + file, "login " + plain.URL + " --token-file " + file,
		"login " + address + " --ca-fingerprint " + strings.Repeat("ab", 32) + " --token-file " + file,
	} {
		if out, stderr, code := p.run(strings.Fields(line)...); code == 0 || told.Load() || strings.Contains(out+stderr, secret) {
			t.Errorf("%s: exit %d, told %v: %s%s", strings.ReplaceAll(line, secret, "SECRET"), code, told.Load(), out, stderr)
		}
	}
}

func certificateOf(s *httptest.Server) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
}

// selfSigned is a certificate for 127.0.0.1 that nobody trusts.
func selfSigned(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{certificate}, PrivateKey: key}
}

// secure serves a fake over TLS with the self-signed certificate of httptest.
func secure(t *testing.T) (server *httptest.Server, fingerprint string) {
	t.Helper()
	_, open := newFake(t)
	server = httptest.NewUnstartedServer(open.Config.Handler)
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // of clients that do not trust it
	server.StartTLS()
	t.Cleanup(server.Close)
	return server, api.Fingerprint(server.Certificate())
}

func TestLogin(t *testing.T) {
	server, fingerprint := secure(t)
	p := newProgram(t, nil)
	p.input = secret + "\n"
	_, stderr, code := p.run("login", server.URL)
	if code == 0 || !strings.Contains(stderr, fingerprint) {
		t.Fatalf("a server was trusted without confirmation: exit %d, %s", code, stderr)
	}
	p.input = "wrong\n"
	if _, stderr, code := p.run("login", server.URL, "--ca-fingerprint", fingerprint); code != 1 {
		t.Fatalf("wrong token: exit %d, %s", code, stderr)
	}
	if _, err := os.Stat(filepath.Join(p.home, configName)); err == nil {
		t.Fatal("a refused login was saved")
	}
	p.input = secret + "\n"
	out, stderr, code := p.run("login", server.URL, "--ca-fingerprint", fingerprint)
	if code != 0 || !strings.Contains(out, "as me (operator)") || strings.Contains(out+stderr, secret) {
		t.Fatalf("exit %d\n%s%s", code, out, stderr)
	}
	info, err := os.Stat(filepath.Join(p.home, configName))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("configuration: %v, %v", info, err)
	}
	if out, stderr, code := p.run("session", "list"); code != 0 || !strings.Contains(out, "web") {
		t.Fatalf("after login: exit %d\n%s%s", code, out, stderr)
	}
}

func TestTrustHints(t *testing.T) {
	server, fingerprint := secure(t)
	for _, test := range []struct{ name, flag, want string }{
		{"unknown authority", "", "pillion login SERVER to confirm and save the authority's fingerprint"},
		{"other fingerprint", strings.Repeat("ab", 32), "this is another server"},
		{"not a fingerprint", "abc", "not 64 hexadecimal digits"},
		{"right fingerprint", fingerprint, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := newProgram(t, nil)
			p.environment = append(p.environment, "PILLION_SERVER="+server.URL, "PILLION_TOKEN="+secret)
			args := []string{"session", "list"}
			if test.flag != "" {
				args = append(args, "--ca-fingerprint", test.flag)
			}
			_, stderr, code := p.run(args...)
			if !strings.Contains(stderr, test.want) || (code == 0) != (test.want == "") {
				t.Fatalf("exit %d\n%s", code, stderr)
			}
		})
	}
}

func FuzzParseConfig(f *testing.F) {
	f.Add([]byte("server: a\ntoken: b\n"))
	f.Add([]byte("color: maybe\n"))
	f.Add([]byte("- x\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := parseConfig(text)
		if err == nil && c.Output != "" && c.Output != "table" && c.Output != "json" && c.Output != "csv" {
			t.Fatalf("output %q", c.Output)
		}
	})
}
