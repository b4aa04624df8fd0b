package api

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"net/url"
	"strings"
	"time"
)

// Fingerprint of a certificate: SHA-256 of its DER form, in hexadecimal.
func Fingerprint(certificate *x509.Certificate) string {
	sum := sha256.Sum256(certificate.Raw)
	return hex.EncodeToString(sum[:])
}

// ParseFingerprint parses a fingerprint, with or without colons and "sha256:", and
// returns it as Fingerprint does.
func ParseFingerprint(text string) (string, error) {
	plain := strings.ToLower(strings.TrimSpace(text))
	plain = strings.ReplaceAll(strings.TrimPrefix(plain, "sha256:"), ":", "")
	if raw, err := hex.DecodeString(plain); err != nil || len(raw) != sha256.Size {
		return "", fmt.Errorf("read %w %q: not 64 hexadecimal digits", ErrFingerprint, text)
	}
	return plain, nil
}

// Names in certificates of a pillion-server: its authority's common name begins with AuthorityName, and only the
// certificates of servers have ServerName, which is neither a host's name nor an agent's.
const (
	AuthorityName = "Pillion authority "
	ServerName    = "pillion server"
)

// verify accepts a chain that ends in the certificate with that fingerprint. If this is the authority of a
// pillion-server, which issues certificates for its own servers only, their host names do not matter: a server does
// not know all names by which it is reached.
func verify(chain []*x509.Certificate, host, fingerprint string) error {
	roots, others, found := x509.NewCertPool(), x509.NewCertPool(), false
	for _, c := range chain {
		if Fingerprint(c) == fingerprint {
			roots.AddCert(c)
			found = true
			if strings.HasPrefix(c.Subject.CommonName, AuthorityName) && chain[0].Subject.CommonName == ServerName {
				host = ""
			}
			continue
		}
		others.AddCert(c)
	}
	if !found {
		return fmt.Errorf("verify %w: no certificate of the server has %s", ErrFingerprint, fingerprint)
	}
	_, err := chain[0].Verify(x509.VerifyOptions{DNSName: host, Roots: roots, Intermediates: others})
	return err
}

// FetchAuthority returns the certificate of a server's authority, the last of its chain,
// without verification; the user compares the fingerprint. known reports whether the
// system trusts the server anyway.
func FetchAuthority(ctx context.Context, server *url.URL) (authority *x509.Certificate, known bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	dialer := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}}
	connection, err := dialer.DialContext(ctx, "tcp", server.Host)
	if err != nil {
		return nil, false, fmt.Errorf("reach %s: %w", server.Host, err)
	}
	defer connection.Close()
	chain := connection.(*tls.Conn).ConnectionState().PeerCertificates
	if len(chain) == 0 {
		return nil, false, fmt.Errorf("reach %s: no certificate", server.Host)
	}
	others := x509.NewCertPool()
	for _, c := range chain[1:] {
		others.AddCert(c)
	}
	_, err = chain[0].Verify(x509.VerifyOptions{DNSName: server.Hostname(), Intermediates: others})
	return chain[len(chain)-1], err == nil, nil
}
