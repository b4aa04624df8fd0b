package pillion

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"io"
	"log"
	"math/big"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"pillion.dev/api"
)

// chainFor is the certificate of a server under a name that is not the one in its address, and of its authority.
func chainFor(t *testing.T, authority, server string) tls.Certificate {
	t.Helper()
	made := tls.Certificate{}
	var parent *x509.Certificate
	var signer *ecdsa.PrivateKey
	for _, template := range []*x509.Certificate{
		{Subject: pkix.Name{CommonName: authority}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign},
		{Subject: pkix.Name{CommonName: server}, DNSNames: []string{"elsewhere"}},
	} {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		template.SerialNumber, template.NotAfter = big.NewInt(int64(len(made.Certificate)+1)), time.Now().Add(time.Hour)
		if parent == nil {
			parent, signer = template, key
		}
		der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
		if err != nil {
			t.Fatal(err)
		}
		if parent, err = x509.ParseCertificate(der); err != nil {
			t.Fatal(err)
		}
		made.Certificate, made.PrivateKey, signer = append([][]byte{der}, made.Certificate...), key, key
	}
	return made
}

// TestLoginOnTerminal: a server that is reached by a name that is not in its certificate is trusted by the fingerprint
// of a Pillion authority; with any other authority the name is refused before anything is asked.
func TestLoginOnTerminal(t *testing.T) {
	for _, test := range []struct{ name, authority, server, answer, want string }{
		{"of a pillion-server, yes", api.AuthorityName + "1", api.ServerName, "yes", "logged in to https://127.0.0.1:"},
		{"of a pillion-server, y", api.AuthorityName + "1", api.ServerName, "y", "logged in to https://127.0.0.1:"},
		{"of a pillion-server, Y", api.AuthorityName + "1", api.ServerName, "Y", "logged in to https://127.0.0.1:"},
		{"of a pillion-server, no", api.AuthorityName + "1", api.ServerName, "no", "was not confirmed"},
		{"node of the bus", api.AuthorityName + "1", "node.pillion", "", "start the server with --host NAME"},
		{"of others", "Public authority", api.ServerName, "", "start the server with --host NAME"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, open := newFake(t)
			server := httptest.NewUnstartedServer(open.Config.Handler)
			server.Config.ErrorLog = log.New(io.Discard, "", 0) // of the client that does not trust it
			server.TLS = &tls.Config{Certificates: []tls.Certificate{chainFor(t, test.authority, test.server)}}
			server.StartTLS()
			t.Cleanup(server.Close)
			p := newProgram(t, nil)
			master, command := p.startOnTerminal(200, 20, "login", server.URL)
			var shown strings.Builder
			for _, step := range []struct{ asked, answer string }{{"[yes/no] ", test.answer}, {"(not shown): ", secret}} {
				if test.answer == "" || test.answer == "no" && step.answer == secret || !readUntil(master, step.asked, &shown) {
					break
				}
				if _, err := io.WriteString(master, step.answer+"\n"); err != nil {
					t.Fatal(err)
				}
			}
			if !readUntil(master, test.want, &shown) {
				t.Errorf("want %q, the terminal shows:\n%s", test.want, shown.String())
			}
			if asked := strings.Contains(shown.String(), "[yes/no]"); asked != (test.answer != "") {
				t.Errorf("asked for the fingerprint: %t\n%s", asked, shown.String())
			}
			readUntil(master, "\x00", &shown)
			_ = command.Wait() // the text says how it ended
		})
	}
}
