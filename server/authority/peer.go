package authority

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"pillion.dev/bus"
)

// Peer is the agent at the remote end of a connection.
type Peer struct {
	Name string
	Certificate
}

// VerifyAgent returns the agent whose certificate the remote end presented. For an
// expired or not yet valid certificate of this authority it returns the peer with the
// error, for any other certificate no peer. It does not check revocation; Authorize does.
func (a *Authority) VerifyAgent(state tls.ConnectionState) (Peer, error) {
	refuse := func(format string, v ...any) error {
		return fmt.Errorf("%w: %s", ErrCertificate, fmt.Sprintf(format, v...))
	}
	if len(state.PeerCertificates) == 0 {
		return Peer{}, refuse("no certificate; enrol the agent")
	}
	leaf := state.PeerCertificates[0]
	if err := leaf.CheckSignatureFrom(a.certificate); err != nil {
		return Peer{}, refuse("not signed by this server's authority; was the server reinstalled? enrol the agent again")
	}
	name := leaf.Subject.CommonName
	if !bus.ValidAgent(name) || leaf.IsCA || !slices.Contains(leaf.ExtKeyUsage, x509.ExtKeyUsageClientAuth) {
		return Peer{}, refuse("%.70q is not an agent", name)
	}
	peer := Peer{name, identify(leaf)}
	// One that is not valid yet was issued when this clock was ahead: its agent renews it.
	if a.options.Now().After(leaf.NotAfter) {
		return peer, refuse("certificate of agent %q expired on %s; revoke and delete the agent, then enrol it again",
			name, leaf.NotAfter.UTC().Format("2006-01-02 15:04 MST"))
	}
	return peer, nil
}

// Authorize verifies the certificate and the agent's standing: the bus calls it for
// each connection, the HTTP port for Renew and Standing. It returns the agent's name,
// if known, with an error too.
func (a *Authority) Authorize(state tls.ConnectionState) (agent string, err error) {
	peer, err := a.VerifyAgent(state)
	if err != nil {
		return peer.Name, err
	}
	agents, err := a.registry()
	if err != nil {
		return peer.Name, err
	}
	return peer.Name, agents.Standing(peer.Name, peer.Certificate)
}

// Enrol issues a certificate for that name to a host with a join token; it returns
// the certificate and the authority's, DER. A host that repeats its request, with the
// same key, gets a certificate even if the token has been used up or has expired since.
// Errors: as Check and Claim, ErrRole, ErrBound, ErrInvalid.
func (a *Authority) Enrol(token, name string, request []byte) (certificate, authority []byte, err error) {
	agents, err := a.registry()
	if err != nil {
		return nil, nil, err
	}
	a.enrolling.Lock()
	defer a.enrolling.Unlock()
	shown, err := a.Check(token)
	if errors.Is(err, ErrUsedUp) || errors.Is(err, ErrExpired) {
		if public, failed := requestKey(request); failed == nil && agents.Holds(name, keySum(public)) {
			err = nil
		}
	}
	if err == nil {
		err = shown.permits(name)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("enrol agent %.70q: %w", name, err)
	}
	if until := a.reusable(name); a.options.Now().Before(until) {
		return nil, nil, fmt.Errorf("enrol agent %q: %w: an agent of that name was revoked, and the NATS cluster may accept its certificate until %s; use another name",
			name, ErrInvalid, until.UTC().Format(time.DateOnly))
	}
	certificate, issued, err := a.SignAgent(request, name)
	if err != nil {
		return nil, nil, err
	}
	joined, err := agents.Claim(name, issued, Grant{Token: shown.Name, Labels: shown.Labels, Site: shown.Site})
	if err != nil {
		return nil, nil, err
	}
	if joined {
		a.use(shown.Name)
	}
	return certificate, a.certificate.Raw, nil
}

// reusable returns when a name may be assigned again; zero: at any time.
func (a *Authority) reusable(name string) time.Time {
	through, revoked := a.revocations.through(name)
	if !revoked || !a.options.Cluster {
		return time.Time{}
	}
	return time.Unix(0, int64(min(through, math.MaxInt64))).Add(a.options.AgentValidity)
}

// Renew signs a key for an agent that Authorize returned.
func (a *Authority) Renew(name string, request []byte) (certificate []byte, err error) {
	agents, err := a.registry()
	if err != nil {
		return nil, err
	}
	certificate, issued, err := a.SignAgent(request, name)
	if err != nil {
		return nil, err
	}
	if err := agents.Renewed(name, issued); err != nil {
		return nil, err
	}
	return certificate, nil
}

// TLS is for the HTTP port. Clients may present a certificate; Authorize verifies it,
// with error messages that TLS alerts cannot carry.
func (a *Authority) TLS() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12, GetCertificate: a.serverCertificate,
		ClientAuth: tls.RequestClientCert, ClientCAs: a.pool, // so that browsers do not offer others
	}
}

// BusTLS is for the embedded bus server.
func (a *Authority) BusTLS() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS13, GetCertificate: a.serverCertificate, ClientAuth: tls.RequireAnyClientCert}
}

// ClientTLS is for the server as a client of an external NATS cluster, whose
// certificates come from this authority or one that this host trusts.
func (a *Authority) ClientTLS() *tls.Config { return a.clusterTLS(a.clientIdentity) }

func (a *Authority) clusterTLS(own func() (*identity, error)) *tls.Config {
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool()
	}
	roots.AddCert(a.certificate)
	return &tls.Config{
		MinVersion: tls.VersionTLS12, RootCAs: roots,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return a.chain(own())
		},
	}
}

func (a *Authority) serverCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return a.chain(a.serverIdentity(false))
}

// chain ends with the authority: a joining host recognises it by its fingerprint.
func (a *Authority) chain(own *identity, err error) (*tls.Certificate, error) {
	if err != nil {
		return nil, err
	}
	return &tls.Certificate{Certificate: [][]byte{own.leaf.Raw, a.certificate.Raw}, PrivateKey: own.key, Leaf: own.leaf}, nil
}
