package bus

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"testing"
	"time"
)

// pki is an authority for one test.
type pki struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pool *x509.CertPool
}

func newPKI(t *testing.T) *pki {
	t.Helper()
	p := &pki{t: t, pool: x509.NewCertPool()}
	p.key = newKey(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, p.key.Public(), p.key)
	if err == nil {
		p.cert, err = x509.ParseCertificate(der)
	}
	if err != nil {
		t.Fatal(err)
	}
	p.pool.AddCert(p.cert)
	return p
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func (p *pki) issue(name string, until time.Time) tls.Certificate {
	p.t.Helper()
	key := newKey(p.t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: until, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, p.cert, key.Public(), p.key)
	if err != nil {
		p.t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// node is a certificate and its key, PEM.
func (p *pki) node() []byte {
	p.t.Helper()
	pair := p.issue("node", time.Now().Add(time.Hour))
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		p.t.Fatal(err)
	}
	return append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})...)
}

func (p *pki) authority() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.cert.Raw})
}

func (p *pki) server() *tls.Config {
	return &tls.Config{Certificates: []tls.Certificate{p.issue("server", time.Now().Add(time.Hour))}}
}

func (p *pki) client(name string, until time.Time) *tls.Config {
	return &tls.Config{Certificates: []tls.Certificate{p.issue(name, until)}, RootCAs: p.pool}
}

func (p *pki) agent(name string) *tls.Config { return p.client(name, time.Now().Add(time.Hour)) }

// authorize works like the server's authority: it returns the name even for an expired
// certificate.
func (p *pki) authorize(state tls.ConnectionState) (string, error) {
	cert := state.PeerCertificates[0]
	if err := cert.CheckSignatureFrom(p.cert); err != nil {
		return "", errors.New("certificate is not ours")
	}
	if time.Now().After(cert.NotAfter) {
		return cert.Subject.CommonName, fmt.Errorf("certificate expired on %s", cert.NotAfter.UTC().Format(time.DateOnly))
	}
	return cert.Subject.CommonName, nil
}
