package authority

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"slices"
	"time"

	"pillion.dev/bus"
)

// Peer is an agent at the other end of a connection.
type Peer struct {
	Name    string
	Serial  string // hexadecimal
	Expires time.Time
}

// VerifyAgent names the agent whose certificate the other end has proved to hold. A
// certificate of ours that does not count (any more) gives the peer and the error;
// one that is not ours, no peer. Whether the agent is revoked Authorize says.
func (a *Authority) VerifyAgent(state tls.ConnectionState) (Peer, error) {
	refuse := func(format string, v ...any) error {
		return fmt.Errorf("%w: %s", ErrCertificate, fmt.Sprintf(format, v...))
	}
	if len(state.PeerCertificates) == 0 {
		return Peer{}, refuse("there is none; enrol the agent")
	}
	leaf := state.PeerCertificates[0]
	if err := leaf.CheckSignatureFrom(a.certificate); err != nil {
		return Peer{}, refuse("it is not from this server's authority; was the server set up anew? enrol the agent again")
	}
	name := leaf.Subject.CommonName
	if !bus.ValidAgent(name) || leaf.IsCA || !slices.Contains(leaf.ExtKeyUsage, x509.ExtKeyUsageClientAuth) {
		return Peer{}, refuse("%.70q is not an agent's", name)
	}
	peer := Peer{Name: name, Serial: leaf.SerialNumber.Text(16), Expires: leaf.NotAfter}
	now := a.options.Now()
	if now.After(leaf.NotAfter) {
		return peer, refuse("that of agent %q expired on %s; revoke and delete the agent, then enrol it again",
			name, leaf.NotAfter.UTC().Format("2006-01-02 15:04 MST"))
	}
	if now.Before(leaf.NotBefore) {
		return peer, refuse("that of agent %q counts from %s and it is %s here; check the clocks",
			name, leaf.NotBefore.UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339))
	}
	return peer, nil
}

// Authorize is VerifyAgent and the agent's standing: the bus asks it for each
// connection, the HTTP port for Renew and Standing. Where the agent is known it is
// named, with the error too.
func (a *Authority) Authorize(state tls.ConnectionState) (agent string, err error) {
	peer, err := a.VerifyAgent(state)
	if err != nil {
		return peer.Name, err
	}
	names, err := a.registry()
	if err != nil {
		return peer.Name, err
	}
	return peer.Name, names.Standing(peer.Name, peer.Serial)
}

// Enrol gives the host with a join token a certificate of that name, DER, and the
// authority's. Its errors: those of Check, ErrRole, ErrInvalid, and what Claim says.
func (a *Authority) Enrol(token, name string, request []byte) (certificate, authority []byte, err error) {
	shown, err := a.Check(token)
	if err != nil {
		return nil, nil, err
	}
	if shown.Role != RoleJoin {
		return nil, nil, fmt.Errorf("enrol agent %.70q: %w: token %q has the role %s, want a join token", name, ErrRole, shown.Name, shown.Role)
	}
	names, err := a.registry()
	if err != nil {
		return nil, nil, err
	}
	certificate, expires, serial, err := a.SignAgent(request, name)
	if err != nil {
		return nil, nil, err
	}
	if err := names.Claim(name, serial, expires); err != nil {
		return nil, nil, err
	}
	return certificate, a.certificate.Raw, nil
}

// Renew signs a new key of an agent that Authorize has named.
func (a *Authority) Renew(name string, request []byte) (certificate []byte, err error) {
	names, err := a.registry()
	if err != nil {
		return nil, err
	}
	certificate, expires, serial, err := a.SignAgent(request, name)
	if err != nil {
		return nil, err
	}
	if err := names.Renewed(name, serial, expires); err != nil {
		return nil, err
	}
	return certificate, nil
}

// TLS is for the HTTP port. Clients may show a certificate; whether it counts is for
// Authorize to say, in words that TLS does not have.
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

// ClientTLS is for the server as a client of a bus of others, whose certificates
// come from this authority or from one that this host trusts.
func (a *Authority) ClientTLS() *tls.Config {
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool()
	}
	roots.AddCert(a.certificate)
	return &tls.Config{
		MinVersion: tls.VersionTLS12, RootCAs: roots,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			own, err := a.clientIdentity()
			return a.chain(own), err
		},
	}
}

func (a *Authority) serverCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	own, err := a.serverIdentity(false)
	return a.chain(own), err
}

// chain ends with the authority: a host that joins knows it by its fingerprint.
func (a *Authority) chain(own *identity) *tls.Certificate {
	if own == nil {
		return nil
	}
	return &tls.Certificate{Certificate: [][]byte{own.leaf.Raw, a.certificate.Raw}, PrivateKey: own.key, Leaf: own.leaf}
}
