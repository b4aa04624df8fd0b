// Package authority authenticates agents and users: it is the certificate authority
// that issues agents' certificates, and it stores the tokens of users and of hosts
// that join.
//
// It does not know which agents exist; the Registry does. It listens on nothing
// itself: the bus calls Authorize, the HTTP port the other methods.
package authority

import (
	"context"
	"crypto/ecdsa"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	files "pillion.dev/internal/store"
	"pillion.dev/server/store"
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
	// Generation returns the generation of the agent's latest certificate, or 0.
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
	// Site for whose agents it may send rows; empty: for none.
	Site string
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
	// Now is the clock; default time.Now. Issued is the one by which certificates are made and renewed;
	// default Now.
	Now, Issued func() time.Time
}

// Collections of tokens and revocations.
var Collections = []string{tokensKept, revocationsKept}

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
	// callout and system identify more connections to an external NATS cluster.
	callout, system *identity
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
)

// The secrets of the first two tokens are in these files of the data directory.
const (
	AdminFile = "admin.token"
	JoinFile  = "join.token"
)

// Open loads keys, certificates, tokens and revocations from the folder and creates missing ones.
// Created is true on the first start: then the files admin.token and join.token
// hold the secrets of the first two tokens.
func Open(folder string, options Options) (a *Authority, created bool, err error) {
	if a, err = OpenKeys(folder, options); err != nil {
		return nil, false, err
	}
	if created, err = a.OpenTokens(context.Background(), store.NewFiles(folder)); err != nil {
		return nil, false, err
	}
	return a, created, nil
}

// OpenKeys loads keys and certificates from the folder and creates missing ones. Before another
// method is called, the tokens must be open.
func OpenKeys(folder string, options Options) (*Authority, error) {
	a := &Authority{options: options, folder: folder}
	if a.options.Now == nil {
		a.options.Now = time.Now
	}
	if a.options.Issued == nil {
		a.options.Issued = a.options.Now
	}
	if a.options.AgentValidity == 0 {
		a.options.AgentValidity = agentValidity
	}
	if err := a.open(); err != nil {
		return nil, fmt.Errorf("open authority in %s: %w", folder, err)
	}
	return a, nil
}

// OpenTokens loads tokens and revocations. If there are none it creates the first two tokens;
// of several servers, one does.
func (a *Authority) OpenTokens(ctx context.Context, kept store.Store) (created bool, err error) {
	if created, err = a.openTokens(ctx, kept); err != nil {
		return false, fmt.Errorf("open tokens: %w", err)
	}
	return created, nil
}

// Reload replaces tokens and revocations by what the store has.
func (a *Authority) Reload(ctx context.Context) error {
	err := a.revocations.reload(ctx)
	if err == nil {
		err = a.Tokens.reload(ctx)
	}
	if err != nil {
		return fmt.Errorf("load tokens: %w", err)
	}
	return nil
}

// Follow applies what other servers write to tokens and revocations, until the context ends.
func (a *Authority) Follow(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var all sync.WaitGroup
	if a.Tokens.store.Shared() {
		all.Go(func() { a.Tokens.flushing(ctx) })
	}
	var failed error
	merged := make(chan struct{}, 1)
	all.Go(func() {
		defer cancel()
		failed = a.Tokens.store.Follow(ctx, revocationsKept, &a.revocations.writing, func(_ string, item []byte) {
			if err := a.revocations.merge(item); err != nil {
				return // the next load reports it
			}
			select {
			case merged <- struct{}{}:
			default:
			}
		})
	})
	all.Go(func() { // not above: who changes tokens holds their lock, and writes revocations
		for {
			select {
			case <-ctx.Done():
				return
			case <-merged:
				a.Tokens.applyRevocations()
			}
		}
	})
	err := a.Tokens.store.Follow(ctx, tokensKept, &a.Tokens.mu, a.Tokens.followed)
	cancel()
	all.Wait()
	if err = errors.Join(err, failed); err != nil {
		return fmt.Errorf("follow tokens: %w", err)
	}
	return nil
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
	public := filepath.Join(a.folder, publicFile)
	own, err := a.openIdentity(authorityFile, func() (*identity, error) {
		if _, err := os.Lstat(public); err == nil { // written after the key
			return nil, fmt.Errorf("%s is missing, and the agents of %s trust only its authority: restore it from a backup, or remove %[2]s to begin with another "+
				"authority, and enrol all agents again (docs/howto/recover.md)", authorityFile, public)
		}
		return a.makeAuthority()
	})
	if err != nil {
		return err
	}
	a.key, a.certificate = own.key, own.leaf
	if !own.leaf.IsCA {
		return fmt.Errorf("%s: not a CA certificate", authorityFile)
	}
	if now := a.options.Now(); now.After(own.leaf.NotAfter) {
		return fmt.Errorf("%s: the authority expired on %s; remove %s* and %s, and enrol all agents again",
			authorityFile, own.leaf.NotAfter.Format(time.DateOnly), authorityFile, publicFile)
	}
	a.pool = x509.NewCertPool()
	key := filepath.Join(a.folder, keysFolder, authorityFile)
	if text, err := os.ReadFile(key); err == nil { // it never changes, so that its previous version is a copy
		_ = files.Keep(key+".previous", text, 0o600) // a later start repeats it
	}
	a.pool.AddCert(a.certificate)
	if err := files.Keep(public, encodePEM(a.certificate.Raw), 0o600); err != nil {
		return err
	}
	if _, err := a.serverIdentity(true); err != nil {
		return err
	}
	_, err = a.clientIdentity()
	return err
}

func (a *Authority) openTokens(ctx context.Context, kept store.Store) (created bool, err error) {
	if a.revocations, err = openRevocations(ctx, kept, a.key, a.options.Now); err != nil {
		return false, err
	}
	a.Tokens = &Tokens{store: kept, now: a.options.Now, fingerprint: a.Fingerprint(), revocations: a.revocations, dirty: map[string]bool{}}
	if err := a.Tokens.reload(ctx); err != nil {
		return false, err
	}
	if len(a.Tokens.list) > 0 {
		return false, a.Tokens.recordRevocations()
	}
	return a.firstTokens(ctx)
}

// firstTokens creates the first two. If another server was faster, it loads those.
func (a *Authority) firstTokens(ctx context.Context) (created bool, err error) {
	admin, err := a.Tokens.add(Token{Name: RoleAdmin, Role: RoleAdmin}, "")
	if err != nil {
		return false, err
	}
	// For the first hosts, which the operator does not know in advance.
	join, err := a.Tokens.add(Token{Name: "join", Role: RoleJoin, Expires: a.options.Now().UTC().Add(firstJoin)}, "")
	if err != nil {
		return false, err
	}
	// Secrets first: once tokens.json exists this does not happen again.
	paths := []string{filepath.Join(a.folder, AdminFile), filepath.Join(a.folder, JoinFile)}
	if err := errors.Join(
		files.Replace(paths[0], []byte(admin+"\n"), 0o600),
		files.Replace(paths[1], []byte(join+"\n"), 0o600)); err != nil {
		return false, err
	}
	if kept := a.Tokens; kept.store.Shared() {
		// Whoever writes the first one has created both.
		err = kept.write(kept.list[:1])
	}
	if errors.Is(err, store.ErrChanged) {
		return false, errors.Join(os.Remove(paths[0]), os.Remove(paths[1]), a.Tokens.reload(ctx))
	}
	if err == nil {
		err = a.Tokens.save()
	}
	return true, err
}

// Secrets returns the secrets of the first two tokens, while their files exist.
func (a *Authority) Secrets() (admin, join string, err error) {
	if admin, err = readSecret(filepath.Join(a.folder, AdminFile)); err == nil {
		join, err = readSecret(filepath.Join(a.folder, JoinFile))
	}
	if err != nil {
		return "", "", fmt.Errorf("read first tokens: %w", err)
	}
	return admin, join, nil
}

func readSecret(path string) (string, error) {
	text, err := os.ReadFile(path)
	return strings.TrimSpace(string(text)), err
}
