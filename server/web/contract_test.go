package web

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"testing"

	"connectrpc.com/connect"

	"pillion.dev/api/pillionv1"
	"pillion.dev/api/pillionv1/pillionv1connect"
	"pillion.dev/archive"
	"pillion.dev/server/authority"
	"pillion.dev/server/control"
	"pillion.dev/server/topology"
)

// The types of the other rooms implement the interfaces.
var (
	_ Control   = (*control.Control)(nil)
	_ Topology  = (*topology.Topology)(nil)
	_ Authority = (*authority.Authority)(nil)
	_ Archive   = archive.Archive(nil)
)

// oneName accepts any name, and keeps the key of the certificate.
type oneName struct{ name, key string }

func (n *oneName) Claim(name string, c authority.Certificate, _ authority.Grant) (bool, error) {
	if n.name != "" {
		return false, fmt.Errorf("claim %q: %w", name, control.ErrExists)
	}
	n.name, n.key = name, c.Key
	return true, nil
}

func (n *oneName) Generation(string) uint64 { return 0 }

func (n *oneName) Holds(name, key string) bool { return false }

func (n *oneName) Standing(name string, c authority.Certificate) error {
	if name != n.name {
		return control.ErrNotFound
	}
	if c.Key != n.key {
		return control.ErrSuperseded
	}
	return nil
}

func (n *oneName) Renewed(_ string, c authority.Certificate) error {
	n.key = c.Key
	return nil
}

// TestJoining follows a host through the real authority: it enrols, is accepted, renews,
// and is refused with its old certificate.
func TestJoining(t *testing.T) {
	own, _, err := authority.Open(t.TempDir(), authority.Options{})
	if err != nil {
		t.Fatal(err)
	}
	own.Use(&oneName{})
	operator, join, err := own.Secrets()
	if err != nil {
		t.Fatal(err)
	}
	s := newSite(t, func(o *Options) { o.Authority, o.TLS = own, own.TLS() })
	root, err := x509.ParseCertificate(own.Certificate())
	if err != nil {
		t.Fatal(err)
	}
	s.roots.AddCert(root)
	service := func(certificates ...tls.Certificate) pillionv1connect.EnrolServiceClient {
		client, url := s.client(t, "tls")
		client.Transport.(*http.Transport).TLSClientConfig.Certificates = certificates
		return pillionv1connect.NewEnrolServiceClient(client, url, connect.WithProtoJSON())
	}
	key, request := newRequest(t)
	for _, token := range []string{"", "guess", operator} {
		_, err := service().Enrol(t.Context(), &pillionv1.EnrolRequest{Token: token, Name: "h1", CertificateRequest: request})
		if code := connect.CodeOf(err); code != connect.CodeUnauthenticated && (code != connect.CodePermissionDenied || token != operator) {
			t.Errorf("enrol with %q: %v", token, err)
		}
	}
	enrolled, err := service().Enrol(t.Context(), &pillionv1.EnrolRequest{Token: join, Name: "h1", CertificateRequest: request})
	if err != nil || !bytes.Equal(enrolled.Authority, own.Certificate()) {
		t.Fatalf("enrol: %v", err)
	}
	_, err = service().Enrol(t.Context(), &pillionv1.EnrolRequest{Token: join, Name: "h1", CertificateRequest: request})
	if connect.CodeOf(err) != connect.CodeAlreadyExists {
		t.Errorf("enrol again: %v", err)
	}
	certificate := tls.Certificate{Certificate: [][]byte{enrolled.Certificate}, PrivateKey: key}
	checkStanding(t, service(certificate), true)
	if _, err := service(certificate).Renew(t.Context(), &pillionv1.RenewRequest{CertificateRequest: []byte("x")}); connect.CodeOf(err) != connect.CodeInvalidArgument {
		t.Errorf("renew with garbage: %v", err)
	}
	nextKey, request := newRequest(t)
	renewed, err := service(certificate).Renew(t.Context(), &pillionv1.RenewRequest{CertificateRequest: request})
	if err != nil {
		t.Fatal(err)
	}
	checkStanding(t, service(tls.Certificate{Certificate: [][]byte{renewed.Certificate}, PrivateKey: nextKey}), true)
	checkStanding(t, service(certificate), false)
	checkStanding(t, service(newCertificate(t, "h1")), false)
	checkStanding(t, service(), false)
}

func newRequest(t *testing.T) (*ecdsa.PrivateKey, []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	request, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		t.Fatal(err)
	}
	return key, request
}

func checkStanding(t *testing.T, service pillionv1connect.EnrolServiceClient, want bool) {
	t.Helper()
	standing, err := service.Standing(t.Context(), &pillionv1.StandingRequest{})
	if err != nil || standing.Welcome != want || (standing.Reason == "") != want {
		t.Errorf("standing: got %v, %v; want accepted %v", standing, err, want)
	}
}
