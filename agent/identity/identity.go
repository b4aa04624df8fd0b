// Package identity is the identity of an agent: the key and certificate that it obtains
// from its server with a join token, their storage and their renewal.
//
// It talks to the server's HTTP port by TLS, with the CA whose fingerprint is in the join
// token. It does not connect to the bus but provides the TLS configuration for it.
package identity

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"pillion.dev/bus"
	"pillion.dev/internal/store"
)

// Errors that callers distinguish.
var (
	// ErrNotEnrolled marks a host without an identity.
	ErrNotEnrolled = errors.New("this host is not enrolled; run the agent with --server and --token once")
	// ErrToken marks an invalid join token.
	ErrToken = errors.New("the server does not accept the join token")
	// ErrTaken marks a name that another agent has.
	ErrTaken = errors.New("an agent with that name exists; revoke and delete it first, or use another --name")
	// ErrUnreachable marks a server that does not respond.
	ErrUnreachable = errors.New("cannot reach the server")
	// ErrImpostor marks a server other than the one that issued the join token or the
	// certificate.
	ErrImpostor = errors.New("this is not the server that issued the join token: an impostor, or a reinstalled server")
	// ErrPlain marks a server port without TLS.
	ErrPlain = errors.New("the server speaks plain HTTP on that port; agents require its TLS port")
	// ErrRefused marks a host that the server rejects, with its reason.
	ErrRefused = errors.New("the server rejects this host")
	// ErrEnrolled marks a host that is already enrolled elsewhere or under another name.
	ErrEnrolled = errors.New("this host is already enrolled")
)

// DefaultFolder is where an agent that is started by hand stores its identity, ServiceFolder where the systemd service does.
const (
	DefaultFolder = "/var/lib/pillion"
	ServiceFolder = "/var/lib/pillion-agent"
)

const (
	fileName        = "identity.json"
	revocationsName = "revocations.json"
)

// Other returns which of the folders has an identity while the agent's own has none: the host is about to join as a second
// agent. It is empty if none has, as far as this user can see.
func Other(own string, folders ...string) string {
	has := func(folder string) bool {
		_, err := os.Stat(filepath.Join(folder, fileName))
		return err == nil
	}
	if i := slices.IndexFunc(folders, has); i >= 0 && !has(own) {
		return folders[i]
	}
	return ""
}

// Identity is safe for use by many goroutines.
type Identity struct {
	path string

	renewing sync.Mutex
	mu       sync.Mutex
	kept     document
	own      tls.Certificate
	root     *x509.Certificate
}

// document is the content of the identity file. It is a single file so that replacing it is atomic.
type document struct {
	Name        string `json:"name"`
	Server      string `json:"server"` // host:port; several are separated by commas
	Bus         string `json:"bus"`    // URL; several are separated by commas
	Authority   string `json:"authority"`
	Certificate string `json:"certificate"`
	Key         string `json:"key"`
}

// Open reads the identity in the folder; ErrNotEnrolled if there is none.
func Open(folder string) (*Identity, error) {
	i := &Identity{path: filepath.Join(folder, fileName)}
	_, err := os.Lstat(i.path)
	if errors.Is(err, fs.ErrNotExist) { // removed so that the host can join again: its previous version is not used
		err = ErrNotEnrolled
	}
	if err == nil {
		_, err = store.Read(i.path, i.load)
	}
	if err != nil {
		return nil, fmt.Errorf("open identity %s: %w", i.path, err)
	}
	return i, nil
}

func (i *Identity) load(text []byte) error {
	var d document
	if err := json.Unmarshal(text, &d); err != nil {
		return err
	}
	return i.use(d)
}

// use validates a document and switches to it.
func (i *Identity) use(d document) error {
	own, err := tls.X509KeyPair([]byte(d.Certificate), []byte(d.Key))
	if err != nil {
		return fmt.Errorf("certificate: %w", err)
	}
	block, _ := pem.Decode([]byte(d.Authority))
	if block == nil {
		return errors.New("CA: not PEM")
	}
	root, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return fmt.Errorf("CA: %w", err)
	}
	if err := own.Leaf.CheckSignatureFrom(root); err != nil {
		return fmt.Errorf("certificate was not issued by the CA: %w", err)
	}
	if !bus.ValidAgent(d.Name) || own.Leaf.Subject.CommonName != d.Name {
		return fmt.Errorf("certificate is for %.70q, not for %.70q", own.Leaf.Subject.CommonName, d.Name)
	}
	if _, err := serverAddresses(d.Server); err != nil {
		return err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.kept, i.own, i.root = d, own, root
	return nil
}

func (i *Identity) document() document {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.kept
}

func (i *Identity) leaf() *x509.Certificate {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.own.Leaf
}

// Name of the agent.
func (i *Identity) Name() string { return i.document().Name }

// Server is host:port of the server's HTTP port; several are separated by commas.
func (i *Identity) Server() string { return i.document().Server }

// Bus is the URL of the bus; several are separated by commas.
func (i *Identity) Bus() string { return i.document().Bus }

// Expires is when the certificate expires.
func (i *Identity) Expires() time.Time { return i.leaf().NotAfter }

// DueAt is when two thirds of the certificate's validity have passed; zero if it is not valid yet.
func (i *Identity) DueAt() time.Time { return i.dueAt(time.Now()) }

func (i *Identity) dueAt(now time.Time) time.Time {
	leaf := i.leaf()
	if now.Before(leaf.NotBefore) {
		return time.Time{}
	}
	return leaf.NotBefore.Add(leaf.NotAfter.Sub(leaf.NotBefore) / 3 * 2)
}

// move stores the servers that the agent uses from now on.
func (i *Identity) move(servers string) error {
	d := i.document()
	if d.Server == servers {
		return nil
	}
	d.Server = servers
	if err := save(i.path, d); err != nil {
		return fmt.Errorf("store the servers of agent %q: %w", d.Name, err)
	}
	return i.use(d)
}

// Due reports whether the certificate should be renewed.
func (i *Identity) Due(now time.Time) bool { return now.After(i.dueAt(now)) }

// TLS is the configuration for the bus. It presents the current certificate, and accepts
// a server certificate of the agent's CA under any host name; a bus on another host than
// the server may instead have one that this host's trust store accepts for its name.
func (i *Identity) TLS() *tls.Config {
	return i.config(func(state tls.ConnectionState, root *x509.Certificate) error {
		err := verifyServer(state, root)
		ours := func(server string) bool { return state.ServerName == hostOf("tls://"+server) }
		if err == nil || state.ServerName == "" || slices.ContainsFunc(strings.Split(i.document().Server, ","), ours) {
			return err
		}
		intermediates := x509.NewCertPool()
		for _, c := range state.PeerCertificates[1:] {
			intermediates.AddCert(c)
		}
		_, err = state.PeerCertificates[0].Verify(x509.VerifyOptions{DNSName: state.ServerName, Intermediates: intermediates})
		return err
	})
}

func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Hostname()
}

func (i *Identity) config(verify func(tls.ConnectionState, *x509.Certificate) error) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			i.mu.Lock()
			defer i.mu.Unlock()
			own := i.own
			return &own, nil
		},
		InsecureSkipVerify: true, // VerifyConnection verifies, except for the host name
		VerifyConnection: func(state tls.ConnectionState) error {
			i.mu.Lock()
			root := i.root
			i.mu.Unlock()
			return verify(state, root)
		},
	}
}

// verifyServer checks that the root issued the certificate to a server. Names do not
// matter: the root issues certificates to a single server.
func verifyServer(state tls.ConnectionState, root *x509.Certificate) error {
	roots := x509.NewCertPool()
	roots.AddCert(root)
	_, err := state.PeerCertificates[0].Verify(x509.VerifyOptions{
		Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	var invalid x509.CertificateInvalidError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return fmt.Errorf("server certificate: %w; check the clocks", err)
	}
	return fmt.Errorf("%w: %w", ErrImpostor, err)
}

// Renew obtains a certificate for a new key and stores it. New connections present it;
// existing ones remain. After an error the current certificate is still in use, and the
// server still accepts it; the next Renew repeats the request.
func (i *Identity) Renew(ctx context.Context) error {
	i.renewing.Lock()
	defer i.renewing.Unlock()
	d := i.document()
	if err := i.renew(ctx, &d); err != nil {
		return fmt.Errorf("renew certificate of agent %q at %s: %w", d.Name, d.Server, err)
	}
	return nil
}

func (i *Identity) renew(ctx context.Context, d *document) error {
	folder := filepath.Dir(i.path)
	key, request, err := prepare(folder, d.Name, d.Server, d.Key)
	if err != nil {
		return err
	}
	var answer renewResponse
	asked, err := callAny(ctx, i.config(verifyServer), d.Server, "Renew", renewRequest{request}, &answer)
	if err != nil {
		return err
	}
	d.Key, d.Certificate = key, encodePEM("CERTIFICATE", answer.Certificate)
	if answer.Bus != "" {
		if d.Bus, err = busURL(answer.Bus, asked); err != nil {
			return err
		}
	}
	next := &Identity{path: i.path}
	if err := next.use(*d); err != nil {
		return fmt.Errorf("invalid response of the server: %w", err)
	}
	if err := save(i.path, *d); err != nil {
		return err
	}
	return errors.Join(i.use(*d), finish(folder))
}

// Standing asks the server whether it accepts this agent: nil, ErrRefused with its
// reason, or why it could not be asked. It explains a rejection by the bus.
//
// The two exchange the list of revocations, which the server signs and the agent only
// carries: a server that was restored from a backup learns from it what was revoked since.
func (i *Identity) Standing(ctx context.Context) error {
	d := i.document()
	path := filepath.Join(filepath.Dir(i.path), revocationsName)
	carried, err := os.ReadFile(path)
	if err != nil || len(carried) > responseLimit/2 {
		carried = nil
	}
	var answer standingResponse
	_, err = callAny(ctx, i.config(verifyServer), d.Server, "Standing", standingRequest{carried}, &answer)
	if err == nil && !answer.Welcome {
		err = fmt.Errorf("%w: %s", ErrRefused, oneLine(answer.Reason))
	}
	if err != nil {
		return fmt.Errorf("ask %s about agent %q: %w", d.Server, d.Name, err)
	}
	if len(answer.Revocations) > 0 && !bytes.Equal(answer.Revocations, carried) {
		if err := store.Replace(path, answer.Revocations, 0o600); err != nil {
			return fmt.Errorf("save list of revocations %s: %w", path, err)
		}
	}
	return nil
}

func encodePEM(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

// save replaces the file. Only its owner may read it.
func save(path string, d document) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return store.Save(path, d, 0o600)
}
