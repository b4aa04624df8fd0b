package authority

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"pillion.dev/bus"
	"pillion.dev/server/store"
)

const (
	authorityValidity = 10 * 365 * 24 * time.Hour
	serverValidity    = 365 * 24 * time.Hour
	renewBefore       = 30 * 24 * time.Hour
	// backdate allows for clocks that are behind ours, by a tenth of what the
	// certificate lasts at most.
	backdate     = time.Hour
	requestLimit = 16 << 10
	// clientName is the server's own on a bus of others; the dot keeps it apart from
	// agents' names.
	clientName = "server.pillion"
)

// identity is a key with its certificate.
type identity struct {
	key  *ecdsa.PrivateKey
	leaf *x509.Certificate
}

func encodePEM(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// openIdentity reads the file, or makes what belongs there.
func (a *Authority) openIdentity(name string, produce func() (*identity, error)) (*identity, error) {
	text, err := os.ReadFile(filepath.Join(a.folder, keysFolder, name))
	if errors.Is(err, fs.ErrNotExist) {
		return a.renewIdentity(name, produce)
	}
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(text, text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	key, ok := pair.PrivateKey.(*ecdsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("%s: the key is not ECDSA", name)
	}
	return &identity{key, pair.Leaf}, nil
}

func (a *Authority) renewIdentity(name string, produce func() (*identity, error)) (*identity, error) {
	made, err := produce()
	if err != nil {
		return nil, err
	}
	key, err := x509.MarshalPKCS8PrivateKey(made.key)
	if err != nil {
		return nil, err
	}
	text := append(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}), encodePEM(made.leaf.Raw)...)
	return made, store.Replace(filepath.Join(a.folder, keysFolder, name), text)
}

func (a *Authority) makeAuthority() (*identity, error) {
	serial, err := newSerial()
	if err != nil {
		return nil, err
	}
	return a.makeIdentity(&x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "Pillion authority " + serial.Text(16)[:8]},
		NotAfter: a.options.Now().Add(authorityValidity), IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	})
}

// makeIdentity makes a key and signs it, with itself where there is no authority.
func (a *Authority) makeIdentity(template *x509.Certificate) (*identity, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	leaf, err := a.sign(template, key.Public(), key)
	return &identity{key, leaf}, err
}

func (a *Authority) sign(template *x509.Certificate, public crypto.PublicKey, own *ecdsa.PrivateKey) (*x509.Certificate, error) {
	serial, err := newSerial()
	if err != nil {
		return nil, err
	}
	template.SerialNumber, template.NotBefore = serial, a.options.Now().Add(-min(backdate, template.NotAfter.Sub(a.options.Now())/10))
	parent, key := a.certificate, a.key
	if parent == nil {
		parent, key = template, own
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, key)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

func newSerial() (*big.Int, error) {
	bytes := make([]byte, 16)
	if _, err := rand.Read(bytes); err != nil {
		return nil, err
	}
	bytes[0] = bytes[0]&0x7f | 0x40 // positive, and always as long
	return new(big.Int).SetBytes(bytes), nil
}

// Fingerprint is the SHA-256 of the authority's certificate, hexadecimal. Join
// tokens carry it.
func (a *Authority) Fingerprint() string {
	sum := sha256.Sum256(a.certificate.Raw)
	return hex.EncodeToString(sum[:])
}

// Certificate is the authority's, DER.
func (a *Authority) Certificate() []byte { return a.certificate.Raw }

// serverIdentity is the server's; it is made again before it expires and, where
// that is asked for, when the host has a name that it lacks.
func (a *Authority) serverIdentity(names bool) (*identity, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	produce := func() (*identity, error) { return a.makeIdentity(a.serverTemplate()) }
	var err error
	if a.server == nil {
		if a.server, err = a.openIdentity(serverFile, produce); err != nil {
			return nil, err
		}
	}
	leaf := a.server.leaf
	fits := leaf.CheckSignatureFrom(a.certificate) == nil && a.options.Now().Add(renewBefore).Before(leaf.NotAfter)
	if fits && names {
		fits = covers(leaf, a.serverTemplate())
	}
	if !fits {
		renewed, err := a.renewIdentity(serverFile, produce)
		if err != nil {
			return nil, fmt.Errorf("renew certificate of the server: %w", err)
		}
		a.server = renewed
	}
	return a.server, nil
}

// clientIdentity is the server's on a bus of others.
func (a *Authority) clientIdentity() (*identity, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	produce := func() (*identity, error) {
		return a.makeIdentity(&x509.Certificate{
			Subject: pkix.Name{CommonName: clientName}, NotAfter: a.options.Now().Add(serverValidity),
			KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		})
	}
	var err error
	if a.client == nil {
		if a.client, err = a.openIdentity(clientFile, produce); err != nil {
			return nil, err
		}
	}
	leaf := a.client.leaf
	if leaf.CheckSignatureFrom(a.certificate) != nil || !a.options.Now().Add(renewBefore).Before(leaf.NotAfter) {
		renewed, err := a.renewIdentity(clientFile, produce)
		if err != nil {
			return nil, fmt.Errorf("renew certificate of the server on the bus: %w", err)
		}
		a.client = renewed
	}
	return a.client, nil
}

func (a *Authority) serverTemplate() *x509.Certificate {
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "pillion server"}, NotAfter: a.options.Now().Add(serverValidity),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	hosts := append([]string{"localhost", "127.0.0.1", "::1"}, a.options.Hosts...)
	if name, err := os.Hostname(); err == nil {
		hosts = append(hosts, name)
	}
	if addresses, err := net.InterfaceAddrs(); err == nil {
		for _, address := range addresses {
			if prefix, ok := address.(*net.IPNet); ok && !prefix.IP.IsLinkLocalUnicast() {
				hosts = append(hosts, prefix.IP.String())
			}
		}
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			if !slices.ContainsFunc(template.IPAddresses, ip.Equal) {
				template.IPAddresses = append(template.IPAddresses, ip)
			}
		} else if host != "" && !slices.Contains(template.DNSNames, host) {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	return template
}

// covers reports whether the certificate has all names of the template.
func covers(leaf, template *x509.Certificate) bool {
	for _, name := range template.DNSNames {
		if !slices.Contains(leaf.DNSNames, name) {
			return false
		}
	}
	for _, ip := range template.IPAddresses {
		if !slices.ContainsFunc(leaf.IPAddresses, ip.Equal) {
			return false
		}
	}
	return true
}

// SignAgent makes a certificate for the key of a PKCS #10 request, DER; nothing else
// is taken from it. Serial is hexadecimal.
func (a *Authority) SignAgent(request []byte, name string) (certificate []byte, expires time.Time, serial string, err error) {
	if !bus.ValidAgent(name) {
		return nil, expires, "", fmt.Errorf("sign certificate: %w: %.70q cannot be an agent's name: "+
			"use lowercase letters, digits and inner hyphens, at most 63", ErrInvalid, name)
	}
	public, err := requestKey(request)
	if err != nil {
		return nil, expires, "", fmt.Errorf("sign certificate of agent %q: %w: %w", name, ErrInvalid, err)
	}
	expires = a.options.Now().Add(a.options.AgentValidity)
	if expires.After(a.certificate.NotAfter) {
		expires = a.certificate.NotAfter
	}
	leaf, err := a.sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: name}, NotAfter: expires,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, public, nil)
	if err != nil {
		return nil, expires, "", fmt.Errorf("sign certificate of agent %q: %w", name, err)
	}
	return leaf.Raw, leaf.NotAfter, leaf.SerialNumber.Text(16), nil
}

func requestKey(request []byte) (crypto.PublicKey, error) {
	if len(request) > requestLimit {
		return nil, fmt.Errorf("the certificate request has %d bytes, the limit is %d", len(request), requestLimit)
	}
	parsed, err := x509.ParseCertificateRequest(request)
	if err != nil {
		return nil, fmt.Errorf("read certificate request: %w", err)
	}
	switch parsed.PublicKey.(type) {
	case *ecdsa.PublicKey, ed25519.PublicKey:
	default:
		return nil, fmt.Errorf("the certificate request has a key of kind %v; want ECDSA or Ed25519", parsed.PublicKeyAlgorithm)
	}
	if err := parsed.CheckSignature(); err != nil {
		return nil, fmt.Errorf("check certificate request: %w", err)
	}
	return parsed.PublicKey, nil
}
