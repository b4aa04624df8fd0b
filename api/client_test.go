package api

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"pillion.dev/api/pillionv1"
	"pillion.dev/api/pillionv1/pillionv1connect"
)

func TestParseServer(t *testing.T) {
	for _, test := range []struct{ name, text, want string }{
		{"loopback name", "localhost:8470", "http://localhost:8470"},
		{"loopback without port", "localhost", "http://localhost:8470"},
		{"loopback address", "127.0.0.9:1", "http://127.0.0.9:1"},
		{"bare IPv6 loopback", "::1", "http://[::1]:8470"},
		{"IPv6 with port", "[2001:db8::1]:9", "https://[2001:db8::1]:9"},
		{"other host", "noc.example", "https://noc.example:8470"},
		{"URL", "https://noc.example:443/", "https://noc.example:443"},
		{"TLS on loopback", "https://localhost", "https://localhost:8470"},
		{"plain HTTP elsewhere", "http://noc.example", ""},
		{"other scheme", "ftp://noc.example", ""},
		{"path", "noc.example/api", ""},
		{"empty", "", ""},
		{"port only", ":8470", ""},
		{"two colons", "X::", ""},
		{"password", "https://a:secret@noc.example", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := ParseServer(test.text)
			if test.want == "" {
				if !errors.Is(err, ErrServer) || strings.Contains(err.Error(), "secret") {
					t.Fatalf("got %v, %v", got, err)
				}
				return
			}
			if err != nil || got.String() != test.want {
				t.Fatalf("got %v, %v, want %s", got, err, test.want)
			}
		})
	}
}

func FuzzParseServer(f *testing.F) {
	for _, seed := range []string{"localhost", "https://a:1", "[::1]:2", "::1", "a@b", "//", "%zz"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		server, err := ParseServer(text)
		if err != nil {
			return
		}
		if server.Scheme == "http" && !Loopback(server.Hostname()) {
			t.Fatalf("plain HTTP to %q", server.Host)
		}
		again, err := ParseServer(server.String())
		if err != nil || again.String() != server.String() {
			t.Fatalf("%q became %q, then %v, %v", text, server, again, err)
		}
	})
}

func TestParseFingerprint(t *testing.T) {
	plain := strings.Repeat("0a", 32)
	for _, test := range []struct {
		name, text string
		ok         bool
	}{
		{"plain", plain, true},
		{"upper", strings.ToUpper(plain), true},
		{"prefix", "sha256:" + plain, true},
		{"colons", strings.TrimSuffix(strings.Repeat("0A:", 32), ":"), true},
		{"short", plain[2:], false},
		{"letters", strings.Repeat("zz", 32), false},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := ParseFingerprint(test.text)
			if test.ok != (err == nil) || test.ok && got != plain {
				t.Fatalf("got %q, %v", got, err)
			}
		})
	}
}

// health answers and records the token.
type health struct {
	pillionv1connect.UnimplementedServerServiceHandler
	tokens chan string
}

func (h *health) Health(ctx context.Context, _ *pillionv1.HealthRequest) (*pillionv1.HealthResponse, error) {
	info, _ := connect.CallInfoForHandlerContext(ctx)
	h.tokens <- info.RequestHeader().Get("Authorization")
	return &pillionv1.HealthResponse{Status: "ok"}, nil
}

// issue returns a certificate; without a parent, that of an authority.
func issue(t *testing.T, parent *tls.Certificate) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour),
		Subject: pkix.Name{CommonName: "test"}, BasicConstraintsValid: true, IsCA: parent == nil,
	}
	signer, above := any(key), template
	if parent == nil {
		template.KeyUsage = x509.KeyUsageCertSign
	} else {
		template.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
		signer, above = parent.PrivateKey, parent.Leaf
	}
	der, err := x509.CreateCertificate(rand.Reader, template, above, key.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	made := tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
	if parent != nil {
		made.Certificate = append(made.Certificate, parent.Certificate...)
	}
	return made
}

func TestClientTrust(t *testing.T) {
	authority, otherAuthority := issue(t, nil), issue(t, nil)
	handler := &health{tokens: make(chan string, 10)}
	mux := http.NewServeMux()
	mux.Handle(pillionv1connect.NewServerServiceHandler(handler))
	server := httptest.NewUnstartedServer(mux)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{issue(t, &authority)}}
	server.Config.ErrorLog = nil
	server.StartTLS()
	t.Cleanup(server.Close)
	file := func(c tls.Certificate) []byte {
		return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Certificate[0]})
	}
	for _, test := range []struct {
		name    string
		options ClientOptions
		ok      bool
	}{
		{"system roots", ClientOptions{}, false},
		{"authority", ClientOptions{Authority: file(authority)}, true},
		{"other authority", ClientOptions{Authority: file(otherAuthority)}, false},
		{"fingerprint", ClientOptions{Fingerprint: Fingerprint(authority.Leaf)}, true},
		{"other fingerprint", ClientOptions{Fingerprint: Fingerprint(otherAuthority.Leaf)}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.options.Server, test.options.Token = server.URL, "secret"
			client, err := NewClient(test.options)
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			_, err = client.Server.Health(t.Context(), &pillionv1.HealthRequest{})
			if test.ok != (err == nil) {
				t.Fatalf("health: %v", err)
			}
			if !test.ok && len(handler.tokens) > 0 {
				t.Fatal("the token was sent to an untrusted server")
			}
			if test.ok {
				if got := <-handler.tokens; got != "Bearer secret" {
					t.Fatalf("token %q", got)
				}
			}
		})
	}
}

func TestFingerprintNeedsName(t *testing.T) {
	authority := issue(t, nil)
	leaf := issue(t, &authority)
	chain := []*x509.Certificate{leaf.Leaf, authority.Leaf}
	if err := verify(chain, "127.0.0.1", Fingerprint(authority.Leaf)); err != nil {
		t.Fatal(err)
	}
	if err := verify(chain, "noc.example", Fingerprint(authority.Leaf)); err == nil {
		t.Fatal("a certificate for another name was accepted")
	}
	leaf.Leaf.Subject.CommonName = ServerName // of an authority that also issues certificates to others
	if err := verify(chain, "noc.example", Fingerprint(authority.Leaf)); err == nil {
		t.Fatal("a certificate for another name, of an authority that is not of a pillion-server, was accepted")
	}
	forged := issue(t, nil) // sends the right authority with a leaf that it did not sign
	if err := verify([]*x509.Certificate{forged.Leaf, authority.Leaf}, "127.0.0.1", Fingerprint(authority.Leaf)); err == nil {
		t.Fatal("a leaf of another authority was accepted")
	}
}
