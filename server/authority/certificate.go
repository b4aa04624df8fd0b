package authority

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"pillion.dev/api"
	"pillion.dev/bus"
	files "pillion.dev/internal/store"
)

const (
	authorityValidity = 10 * 365 * 24 * time.Hour
	serverValidity    = 365 * 24 * time.Hour
	renewBefore       = 30 * 24 * time.Hour
	requestLimit      = 16 << 10
	// clientName is the server's name on an external NATS cluster.
	clientName = bus.ServerName
)

// identity is a key with its certificate.
type identity struct {
	key  *ecdsa.PrivateKey
	leaf *x509.Certificate
}

func encodePEM(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// openIdentity loads the file, or creates it.
func (a *Authority) openIdentity(name string, produce func() (*identity, error)) (*identity, error) {
	kept := &identity{}
	text, err := files.Read(filepath.Join(a.folder, keysFolder, name), func(text []byte) (err error) {
		kept, err = parseIdentity(text)
		return err
	})
	if err == nil && text == nil {
		return a.renewIdentity(name, produce)
	}
	return kept, err
}

func parseIdentity(text []byte) (*identity, error) {
	pair, err := tls.X509KeyPair(text, text)
	if err != nil {
		return nil, err
	}
	key, ok := pair.PrivateKey.(*ecdsa.PrivateKey)
	if !ok {
		return nil, errors.New("the key is not ECDSA")
	}
	if pair.Leaf.IsCA {
		err = pair.Leaf.CheckSignatureFrom(pair.Leaf)
	}
	return &identity{key, pair.Leaf}, err
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
	return made, files.Replace(filepath.Join(a.folder, keysFolder, name), text, 0o600)
}

func (a *Authority) makeAuthority() (*identity, error) {
	serial := newSerial()
	return a.makeIdentity(&x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: api.AuthorityName + serial.Text(16)[:8]},
		NotBefore: a.options.Issued().Add(-authorityValidity), NotAfter: a.options.Issued().Add(authorityValidity), IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	})
}

// makeIdentity generates a key and signs it, self-signed if there is no authority yet.
func (a *Authority) makeIdentity(template *x509.Certificate) (*identity, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	leaf, err := a.sign(template, key.Public(), key)
	return &identity{key, leaf}, err
}

// sign signs a certificate that is valid from long before, by default as long as the authority: a clock that
// was ahead when it was made, or is behind when it is checked, must lock nobody out.
func (a *Authority) sign(template *x509.Certificate, public crypto.PublicKey, own *ecdsa.PrivateKey) (*x509.Certificate, error) {
	if template.SerialNumber == nil {
		template.SerialNumber = newSerial()
	}
	if template.NotBefore.IsZero() {
		template.NotBefore = a.certificate.NotBefore
	}
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

func newSerial() *big.Int {
	bytes := make([]byte, 16)
	rand.Read(bytes)                // never fails
	bytes[0] = bytes[0]&0x7f | 0x40 // positive, of constant length
	return new(big.Int).SetBytes(bytes)
}

// Fingerprint is the SHA-256 of the authority's certificate in hexadecimal. It is
// part of join tokens.
func (a *Authority) Fingerprint() string {
	sum := sha256.Sum256(a.certificate.Raw)
	return hex.EncodeToString(sum[:])
}

// ReadFingerprint returns the Fingerprint of the authority in a folder, which it leaves unchanged.
func ReadFingerprint(folder string) (string, error) {
	path := filepath.Join(folder, publicFile)
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return "", fmt.Errorf("read %s: no certificate in PEM", path)
	}
	sum := sha256.Sum256(block.Bytes)
	return hex.EncodeToString(sum[:]), nil
}

// Secret is derived from the authority's key, for that purpose: servers that have the key encrypt
// with it what they share.
func (a *Authority) Secret(purpose string) ([]byte, error) {
	key, err := a.key.Bytes()
	if err == nil {
		key, err = hkdf.Key(sha256.New, key, nil, purpose, sha256.Size)
	}
	if err != nil {
		return nil, fmt.Errorf("derive key: %w", err)
	}
	return key, nil
}

// Certificate is the authority's, DER.
func (a *Authority) Certificate() []byte { return a.certificate.Raw }

// serverIdentity is the identity of the server's ports; if names is set, it is also renewed
// when it lacks a name of the host.
func (a *Authority) serverIdentity(names bool) (*identity, error) {
	return a.current(&a.server, serverFile, a.serverTemplate, names)
}

// clientIdentity is the server's identity as a client of an external NATS cluster.
func (a *Authority) clientIdentity() (*identity, error) {
	return a.clusterIdentity(&a.client, clientFile, clientName)
}

// current returns an identity of the server, renewed before it expires or if it is not valid yet.
func (a *Authority) current(held **identity, file string, template func() *x509.Certificate, names bool) (_ *identity, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	produce := func() (*identity, error) { return a.makeIdentity(template()) }
	if *held == nil {
		if *held, err = a.openIdentity(file, produce); err != nil {
			return nil, err
		}
	}
	leaf, now := (*held).leaf, a.options.Issued()
	if leaf.CheckSignatureFrom(a.certificate) == nil && !now.Before(leaf.NotBefore) && now.Add(renewBefore).Before(leaf.NotAfter) &&
		(!names || covers(leaf, template())) {
		return *held, nil
	}
	renewed, err := a.renewIdentity(file, produce)
	if err != nil {
		return nil, fmt.Errorf("renew %s: %w", file, err)
	}
	*held = renewed
	return renewed, nil
}

func (a *Authority) serverTemplate() *x509.Certificate {
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: api.ServerName}, NotAfter: a.options.Issued().Add(serverValidity),
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

// covers reports whether the certificate includes all names of the template.
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

// SignAgent issues a certificate, DER, for the key of a PKCS #10 request; the rest of
// the request is ignored.
func (a *Authority) SignAgent(request []byte, name string) (certificate []byte, issued Certificate, err error) {
	if !bus.ValidAgent(name) {
		return nil, issued, fmt.Errorf("sign certificate: %w: agent name %.70q: "+
			"use at most 63 lowercase letters, digits and inner hyphens", ErrInvalid, name)
	}
	public, err := requestKey(request)
	if err != nil {
		return nil, issued, fmt.Errorf("sign certificate of agent %q: %w: %w", name, ErrInvalid, err)
	}
	// Agents renew it once two thirds of the time between the ends have passed, so that one end is near.
	since, expires := a.options.Issued().Add(-a.options.AgentValidity/2), a.options.Issued().Add(a.options.AgentValidity)
	if expires.After(a.certificate.NotAfter) {
		expires = a.certificate.NotAfter
	}
	leaf, err := a.sign(&x509.Certificate{
		SerialNumber: serialOf(a.nextGeneration(name)), Subject: pkix.Name{CommonName: name}, NotBefore: since, NotAfter: expires,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, public, nil)
	if err != nil {
		return nil, issued, fmt.Errorf("sign certificate of agent %q: %w", name, err)
	}
	return leaf.Raw, identify(leaf), nil
}

// identify returns what the registry records of a certificate.
func identify(leaf *x509.Certificate) Certificate {
	return Certificate{Serial: leaf.SerialNumber.Text(16), Key: keySum(leaf.PublicKey), Expires: leaf.NotAfter}
}

// keySum is the SHA-256 of a public key in hexadecimal; empty for a kind of key that no
// agent has.
func keySum(public crypto.PublicKey) string {
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(der)
	return hex.EncodeToString(sum[:])
}

func requestKey(request []byte) (crypto.PublicKey, error) {
	if len(request) > requestLimit {
		return nil, fmt.Errorf("certificate request of %d bytes, limit %d", len(request), requestLimit)
	}
	parsed, err := x509.ParseCertificateRequest(request)
	if err != nil {
		return nil, fmt.Errorf("read certificate request: %w", err)
	}
	switch parsed.PublicKey.(type) {
	case *ecdsa.PublicKey, ed25519.PublicKey:
	default:
		return nil, fmt.Errorf("certificate request with a key of type %v, want ECDSA or Ed25519", parsed.PublicKeyAlgorithm)
	}
	if err := parsed.CheckSignature(); err != nil {
		return nil, fmt.Errorf("check certificate request: %w", err)
	}
	return parsed.PublicKey, nil
}
