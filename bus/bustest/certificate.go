package bustest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io/fs"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// serverName is the common name of a pillion-server's certificate.
const serverName = "server.pillion"

// TLS is for a client of that common name.
func (c *Cluster) TLS(name string) *tls.Config {
	c.t.Helper()
	own, key := readAuthority(c.t, c.Authority)
	text := issue(c.t, own, key, &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	pair, err := tls.X509KeyPair(text, text)
	if err != nil {
		c.t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(own)
	return &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: pool, MinVersion: tls.VersionTLS12}
}

// ServerTLS is for a pillion-server.
func (c *Cluster) ServerTLS() *tls.Config { return c.TLS(serverName) }

func authorityFile(folder string) string { return filepath.Join(folder, "authority", "authority.pem") }

// makeAuthority creates the files of an authority, unless the folder has one.
func makeAuthority(t testing.TB, folder string) {
	t.Helper()
	if _, err := os.Stat(authorityFile(folder)); !errors.Is(err, fs.ErrNotExist) {
		return
	}
	key := newKey(t)
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "Pillion authority test"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	pair := sign(t, template, template, key, key)
	block, _ := pem.Decode(pair)
	err := errors.Join(
		os.MkdirAll(filepath.Dir(authorityFile(folder)), 0o700),
		os.WriteFile(authorityFile(folder), pair, 0o600),
		os.WriteFile(filepath.Join(folder, "ca.crt"), pem.EncodeToMemory(block), 0o600))
	if err != nil {
		t.Fatal(err)
	}
}

func readAuthority(t testing.TB, folder string) (*x509.Certificate, crypto.Signer) {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(authorityFile(folder), authorityFile(folder))
	if err != nil {
		t.Fatal(err)
	}
	return pair.Leaf, pair.PrivateKey.(crypto.Signer)
}

// issueNode writes the certificate and key of a node, with the agents for which a leaf may speak,
// and returns the file.
func issueNode(t testing.TB, folder, name string, agents ...string) string {
	t.Helper()
	own, key := readAuthority(t, folder)
	path := filepath.Join(t.TempDir(), "node.pem")
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, agent := range agents {
		template.URIs = append(template.URIs, &url.URL{Scheme: "urn", Opaque: "pillion:agent:" + agent})
	}
	if err := os.WriteFile(path, issue(t, own, key, template), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// issue returns a certificate for a new key, and the key.
func issue(t testing.TB, parent *x509.Certificate, authority crypto.Signer, template *x509.Certificate) []byte {
	t.Helper()
	return sign(t, template, parent, newKey(t), authority)
}

func sign(t testing.TB, template, parent *x509.Certificate, key, authority crypto.Signer) []byte {
	t.Helper()
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Minute), time.Now().Add(24*time.Hour)
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), authority)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})...)
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}
