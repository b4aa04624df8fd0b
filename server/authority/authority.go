// Package authority authenticates agents and users: it is the certificate authority
// that issues agents' certificates, and it stores the tokens of users and of hosts
// that join.
//
// It does not know which agents exist; the Registry does. It listens on nothing
// itself: the bus calls Authorize, the HTTP port the other methods.
package authority

import (
	"crypto/ecdsa"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"pillion.dev/internal/store"
)

// Errors that callers distinguish.
var (
	// ErrUnknown, ErrExpired and ErrRevoked reject a token.
	ErrUnknown = errors.New("unknown token")
	ErrExpired = errors.New("token expired")
	ErrRevoked = errors.New("token revoked")
	// ErrUsedUp rejects a join token with which as many hosts have joined as it permits.
	ErrUsedUp = errors.New("token used up")
	// ErrBound rejects a join token for a name that it does not permit.
	ErrBound = errors.New("token is for other agents")
	// ErrRole rejects a token whose role does not permit its use.
	ErrRole = errors.New("wrong token role")
	// ErrInvalid marks an invalid name, role or certificate request.
	ErrInvalid = errors.New("invalid")
	// ErrExists is a token name already in use.
	ErrExists = errors.New("already exists")
	// ErrNotFound is a name without a token.
	ErrNotFound = errors.New("not found")
	// ErrLast protects the last token that can create others.
	ErrLast = errors.New("last admin token; create another first")
	// ErrCertificate rejects a certificate; the reason follows.
	ErrCertificate = errors.New("certificate refused")
)

// Registry maps agents' names to certificates. It identifies an agent by its key: all
// certificates for that key are equivalent, so that a request whose answer was lost can
// be repeated. Its errors are shown to the hosts' operators.
type Registry interface {
	// Claim assigns an unused name to the holder of the certificate's key. If that
	// holder has the name already, it only records the certificate, and joined is false.
	Claim(name string, certificate Certificate, grant Grant) (joined bool, err error)
	// Generation returns that of the agent's latest certificate, or 0.
	Generation(name string) uint64
	// Holds reports whether the name is assigned to the holder of the key.
	Holds(name, key string) bool
	// Standing returns why that certificate of the agent is not accepted, or nil.
	Standing(name string, certificate Certificate) error
	// Renewed records the agent's next certificate.
	Renewed(name string, certificate Certificate) error
}

// Certificate identifies an agent's certificate.
type Certificate struct {
	Serial  string // hexadecimal
	Key     string // SHA-256 of its public key, hexadecimal
	Expires time.Time
}

// Grant is what a join token gives to an agent.
type Grant struct {
	Token  string // its name
	Labels map[string]string
}

// Options of an Authority.
type Options struct {
	// Hosts are additional names and addresses of the server.
	Hosts []string
	// AgentValidity is the validity of agents' certificates; default one year.
	AgentValidity time.Duration
	// Cluster is set if agents connect to an external cluster, which does not know what is
	// revoked: a name is not assigned again while a revoked certificate of it is valid.
	Cluster bool
	// Now is the clock; default time.Now.
	Now func() time.Time
}

// Authority is safe for concurrent use.
type Authority struct {
	*Tokens
	options     Options
	folder      string
	key         *ecdsa.PrivateKey
	certificate *x509.Certificate
	pool        *x509.CertPool
	agents      Registry
	revocations *revocations
	// enrolling is held while a host joins: it uses up the token.
	enrolling sync.Mutex

	mu     sync.Mutex
	server *identity
	client *identity
}

const (
	agentValidity = 365 * 24 * time.Hour
	// firstJoin is the validity of the first join token.
	firstJoin = 7 * 24 * time.Hour
	// A key and its certificate share a file, so that neither exists without the other.
	keysFolder    = "authority"
	authorityFile = "authority.pem"
	serverFile    = "server.pem"
	clientFile    = "bus.pem"
	publicFile    = "ca.crt"
	tokensFile    = "tokens.json"
	operatorFile  = "operator.token"
	joinFile      = "join.token"
)

// Open loads keys, certificates and tokens from the folder and creates missing ones.
// Created is true on the first start: then the files operator.token and join.token
// hold the secrets of the first two tokens.
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

// Use sets the registry; until then all requests to join, renew or connect are refused.
func (a *Authority) Use(agents Registry) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.agents = agents
}

func (a *Authority) registry() (Registry, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.agents == nil {
		return nil, errors.New("the server has not started yet")
	}
	return a.agents, nil
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
		return fmt.Errorf("%s: not a CA certificate", authorityFile)
	}
	if now := a.options.Now(); now.After(own.leaf.NotAfter) {
		return fmt.Errorf("%s: the authority expired on %s; remove the file and enrol all agents again",
			authorityFile, own.leaf.NotAfter.Format(time.DateOnly))
	}
	a.pool = x509.NewCertPool()
	a.pool.AddCert(a.certificate)
	if err := store.Replace(filepath.Join(a.folder, publicFile), encodePEM(a.certificate.Raw), 0o600); err != nil {
		return err
	}
	if _, err := a.serverIdentity(true); err != nil {
		return err
	}
	_, err = a.clientIdentity()
	return err
}

func (a *Authority) openTokens() (created bool, err error) {
	if a.revocations, err = openRevocations(a.folder, a.key, a.options.Now); err != nil {
		return false, err
	}
	a.Tokens = &Tokens{path: filepath.Join(a.folder, tokensFile), now: a.options.Now, fingerprint: a.Fingerprint(), revocations: a.revocations}
	found, err := store.Load(a.Tokens.path, &a.Tokens.list)
	if err != nil {
		return false, err
	}
	if found {
		a.Tokens.applyRevocations()
		return false, a.Tokens.recordRevocations()
	}
	operator, err := a.Tokens.add(Token{Name: "operator", Role: RoleAdmin})
	if err != nil {
		return false, err
	}
	// For the first hosts, which the operator does not know in advance.
	join, err := a.Tokens.add(Token{Name: "join", Role: RoleJoin, Expires: a.options.Now().UTC().Add(firstJoin)})
	if err != nil {
		return false, err
	}
	// Secrets first: once tokens.json exists this does not happen again.
	if err := errors.Join(
		store.Replace(filepath.Join(a.folder, operatorFile), []byte(operator+"\n"), 0o600),
		store.Replace(filepath.Join(a.folder, joinFile), []byte(join+"\n"), 0o600)); err != nil {
		return false, err
	}
	return true, a.Tokens.save()
}

// Secrets returns the secrets of the first two tokens, while their files exist.
func (a *Authority) Secrets() (operator, join string, err error) {
	if operator, err = readSecret(filepath.Join(a.folder, operatorFile)); err == nil {
		join, err = readSecret(filepath.Join(a.folder, joinFile))
	}
	if err != nil {
		return "", "", fmt.Errorf("read first tokens: %w", err)
	}
	return operator, join, nil
}

func readSecret(path string) (string, error) {
	text, err := os.ReadFile(path)
	return strings.TrimSpace(string(text)), err
}
