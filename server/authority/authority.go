// Package authority decides who may speak to the server: it is the certificate
// authority that hosts get their certificates from, and it keeps the tokens of users
// and of hosts that join.
//
// It does not know which agents there are; Names does. It serves nothing itself: the
// bus asks Authorize, the HTTP port the rest.
package authority

import (
	"crypto/ecdsa"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"pillion.dev/server/store"
)

// Errors that callers tell apart.
var (
	// ErrUnknown, ErrExpired and ErrRevoked are tokens that do not count.
	ErrUnknown = errors.New("unknown token")
	ErrExpired = errors.New("token expired")
	ErrRevoked = errors.New("token revoked")
	// ErrRole is a token of another role than what it is shown for.
	ErrRole = errors.New("wrong kind of token")
	// ErrInvalid is a name, role or certificate request that cannot be.
	ErrInvalid = errors.New("invalid")
	// ErrExists is a token's name that is taken.
	ErrExists = errors.New("exists already")
	// ErrNotFound is a token that there is none of.
	ErrNotFound = errors.New("there is none")
	// ErrLast is the last token that can make others.
	ErrLast = errors.New("it is the last admin's token; create another first")
	// ErrCertificate is a certificate that does not count; the reason follows.
	ErrCertificate = errors.New("certificate refused")
)

// Names knows which host has which agent's name. Its errors are for the hosts'
// operators to read.
type Names interface {
	// Claim gives a free name to the certificate with that serial number.
	Claim(name, serial string, expires time.Time) error
	// Standing says why that certificate of the agent does not count, or nil.
	Standing(name, serial string) error
	// Renewed notes the agent's next certificate.
	Renewed(name, serial string, expires time.Time) error
}

// Options of an Authority.
type Options struct {
	// Hosts are names and addresses of the server besides those of this host.
	Hosts []string
	// AgentValidity is how long agents' certificates last; default one year.
	AgentValidity time.Duration
	// Now is the clock; default time.Now.
	Now func() time.Time
}

// Authority is open on one folder. Its methods can be called from any goroutine.
type Authority struct {
	*Tokens
	options     Options
	folder      string
	key         *ecdsa.PrivateKey
	certificate *x509.Certificate
	pool        *x509.CertPool
	names       Names

	mu     sync.Mutex
	server *identity
	client *identity
}

const (
	agentValidity = 365 * 24 * time.Hour
	// Files in the folder; a key and its certificate are one file, so that there is
	// never one without the other.
	keysFolder    = "authority"
	authorityFile = "authority.pem"
	serverFile    = "server.pem"
	clientFile    = "bus.pem"
	publicFile    = "ca.crt"
	tokensFile    = "tokens.json"
	operatorFile  = "operator.token"
	joinFile      = "join.token"
)

// Open reads what there is in the folder and makes what is missing. Created is true
// for the first start: then the files operator.token and join.token hold the secrets
// of the first two tokens.
func Open(folder string, options Options) (a *Authority, created bool, err error) {
	a = &Authority{options: options, folder: folder}
	if a.options.Now == nil {
		a.options.Now = time.Now
	}
	if a.options.AgentValidity == 0 {
		a.options.AgentValidity = agentValidity
	}
	if err := a.open(); err != nil {
		return nil, false, fmt.Errorf("open authority in %s: %w", folder, err)
	}
	if created, err = a.openTokens(); err != nil {
		return nil, false, fmt.Errorf("open tokens in %s: %w", folder, err)
	}
	return a, created, nil
}

// Use sets who knows the names; before it nobody may join, renew or connect.
func (a *Authority) Use(names Names) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.names = names
}

func (a *Authority) registry() (Names, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.names == nil {
		return nil, errors.New("the server has not started yet")
	}
	return a.names, nil
}

func (a *Authority) open() error {
	for _, folder := range []string{a.folder, filepath.Join(a.folder, keysFolder)} {
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return err
		}
	}
	own, err := a.openIdentity(authorityFile, a.makeAuthority)
	if err != nil {
		return err
	}
	a.key, a.certificate = own.key, own.leaf
	if !own.leaf.IsCA {
		return fmt.Errorf("%s: not an authority's certificate", authorityFile)
	}
	if now := a.options.Now(); now.After(own.leaf.NotAfter) {
		return fmt.Errorf("%s: the authority expired on %s; remove the file and enrol all agents again",
			authorityFile, own.leaf.NotAfter.Format(time.DateOnly))
	}
	a.pool = x509.NewCertPool()
	a.pool.AddCert(a.certificate)
	if err := store.Replace(filepath.Join(a.folder, publicFile), encodePEM(a.certificate.Raw)); err != nil {
		return err
	}
	if _, err := a.serverIdentity(true); err != nil {
		return err
	}
	_, err = a.clientIdentity()
	return err
}

func (a *Authority) openTokens() (created bool, err error) {
	a.Tokens = &Tokens{path: filepath.Join(a.folder, tokensFile), now: a.options.Now, fingerprint: a.Fingerprint()}
	found, err := store.Load(a.Tokens.path, &a.Tokens.list)
	if err != nil || found {
		return false, err
	}
	operator, err := a.Tokens.make("operator", RoleAdmin, time.Time{})
	if err != nil {
		return false, err
	}
	join, err := a.Tokens.make("join", RoleJoin, time.Time{})
	if err != nil {
		return false, err
	}
	// The secrets first: once tokens.json is there this does not happen again.
	if err := errors.Join(
		store.Replace(filepath.Join(a.folder, operatorFile), []byte(operator+"\n")),
		store.Replace(filepath.Join(a.folder, joinFile), []byte(join+"\n"))); err != nil {
		return false, err
	}
	return true, a.Tokens.save()
}

// Secrets are those of the first two tokens, as long as their files are there.
func (a *Authority) Secrets() (operator, join string, err error) {
	if operator, err = readSecret(filepath.Join(a.folder, operatorFile)); err == nil {
		join, err = readSecret(filepath.Join(a.folder, joinFile))
	}
	if err != nil {
		return "", "", fmt.Errorf("read first tokens: %w", err)
	}
	return operator, join, nil
}
