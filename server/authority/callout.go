package authority

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"

	"pillion.dev/bus"
)

const (
	calloutFile = "callout.pem"
	systemFile  = "system.pem"
)

// BusSecret is what the servers of one authority have in common: the key with which they sign
// who may connect to a NATS cluster is made of it.
func (a *Authority) BusSecret() ([]byte, error) {
	key, err := a.key.Bytes()
	if err != nil {
		return nil, fmt.Errorf("read the authority's key: %w", err)
	}
	sum := sha256.Sum256(append([]byte("pillion bus "), key...))
	return sum[:], nil
}

// CalloutTLS is for the connection by which a server tells a NATS cluster who may connect.
func (a *Authority) CalloutTLS() *tls.Config {
	return a.clusterTLS(func() (*identity, error) { return a.clusterIdentity(&a.callout, calloutFile, bus.CalloutName) })
}

// SystemTLS is for the connection by which a server disconnects agents from a NATS cluster.
func (a *Authority) SystemTLS() *tls.Config {
	return a.clusterTLS(func() (*identity, error) { return a.clusterIdentity(&a.system, systemFile, bus.SystemName) })
}

// clusterIdentity is the identity of a client of an external NATS cluster.
func (a *Authority) clusterIdentity(held **identity, file, name string) (*identity, error) {
	return a.current(held, file, func() *x509.Certificate {
		return &x509.Certificate{
			Subject: pkix.Name{CommonName: name}, NotAfter: a.options.Issued().Add(serverValidity),
			KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		}
	}, false)
}
