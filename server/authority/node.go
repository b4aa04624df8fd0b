package authority

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"net"
	"net/url"

	"pillion.dev/bus"
)

// IssueNode returns the certificate, and the key, of a node of a NATS cluster with these names
// and addresses, PEM. It is valid for ten years, as long as the authority: the cluster must not stop
// because nobody renewed it.
func (a *Authority) IssueNode(hosts []string) ([]byte, error) {
	return a.issueNode(bus.NodeName, hosts, nil)
}

func (a *Authority) issueNode(name string, hosts []string, of []*url.URL) ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("issue certificate of a NATS node: %w", err)
	}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, NotAfter: a.certificate.NotAfter, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}, URIs: of,
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	leaf, err := a.sign(template, key.Public(), nil)
	if err != nil {
		return nil, fmt.Errorf("issue certificate of a NATS node: %w", err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("issue certificate of a NATS node: %w", err)
	}
	return append(encodePEM(leaf.Raw), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})...), nil
}
