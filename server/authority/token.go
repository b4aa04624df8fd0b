package authority

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base32"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"pillion.dev/bus"
	"pillion.dev/server/store"
)

// Roles of tokens. Each of the first three may do what those before it may.
const (
	RoleViewer   = "viewer"
	RoleOperator = "operator"
	RoleAdmin    = "admin"
	RoleJoin     = "join" // lets hosts join, and nothing else
)

// Token without its secret.
type Token struct {
	Name    string    `json:"name"`
	Role    string    `json:"role"`
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires,omitzero"` // zero: never
	// Used is when it was last seen, to within minutes.
	Used    time.Time `json:"used,omitzero"`
	Revoked bool      `json:"revoked,omitempty"`
}

// kept is what the file has of a token: of its secret the hash.
type kept struct {
	Token
	Hash string `json:"hash"` // SHA-256, hexadecimal
}

// Tokens are the secrets that users and joining hosts show. Of each only the hash is
// kept; a secret is 160 random bits, so a plain hash cannot be searched.
type Tokens struct {
	path        string
	now         func() time.Time
	fingerprint string

	mu     sync.Mutex
	list   []kept
	unsaid bool // Used has changed since
}

const (
	apiPrefix   = "pt_"
	joinPrefix  = "pj_"
	secretBytes = 20
	secretLimit = 256
	tokensLimit = 1000
	useGrain    = time.Minute
)

var secretText = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// Create makes a token and returns its secret, which nobody can read again. A zero
// time never comes.
func (t *Tokens) Create(name, role string, expires time.Time) (Token, string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	secret, err := t.make(name, role, expires)
	if err != nil {
		return Token{}, "", fmt.Errorf("create token %.70q: %w", name, err)
	}
	if err := t.save(); err != nil {
		t.list = t.list[:len(t.list)-1]
		return Token{}, "", fmt.Errorf("create token %q: %w", name, err)
	}
	return t.list[len(t.list)-1].Token, secret, nil
}

func (t *Tokens) make(name, role string, expires time.Time) (secret string, err error) {
	switch {
	case !bus.ValidAgent(name):
		return "", fmt.Errorf("%w: the name must be of lowercase letters, digits and inner hyphens, at most 63", ErrInvalid)
	case !slices.Contains([]string{RoleViewer, RoleOperator, RoleAdmin, RoleJoin}, role):
		return "", fmt.Errorf("%w: the role %.20q is none of viewer, operator, admin, join", ErrInvalid, role)
	case !expires.IsZero() && !expires.After(t.now()):
		return "", fmt.Errorf("%w: it would have expired on %s", ErrInvalid, expires.UTC().Format(time.RFC3339))
	case len(t.list) >= tokensLimit:
		return "", fmt.Errorf("%w: there are %d tokens already", ErrInvalid, len(t.list))
	case t.find(name) >= 0:
		return "", fmt.Errorf("name: %w", ErrExists)
	}
	bytes := make([]byte, secretBytes)
	if _, err := rand.Read(bytes); err != nil {
		return "", err
	}
	secret = apiPrefix + secretText.EncodeToString(bytes)
	if role == RoleJoin {
		secret = joinPrefix + t.fingerprint + "_" + secretText.EncodeToString(bytes)
	}
	t.list = append(t.list, kept{Token{Name: name, Role: role, Created: t.now().UTC(), Expires: expires}, hash(secret)})
	return secret, nil
}

func hash(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

func (t *Tokens) find(name string) int {
	return slices.IndexFunc(t.list, func(k kept) bool { return k.Name == name })
}

// Check returns the token of the secret, or ErrUnknown, ErrExpired, ErrRevoked.
func (t *Tokens) Check(secret string) (Token, error) {
	if len(secret) > secretLimit {
		return Token{}, ErrUnknown
	}
	own := []byte(hash(secret))
	t.mu.Lock()
	defer t.mu.Unlock()
	found := -1
	for i := range t.list { // all of them: the time says nothing
		if subtle.ConstantTimeCompare(own, []byte(t.list[i].Hash)) == 1 {
			found = i
		}
	}
	if found < 0 {
		if strings.HasPrefix(secret, joinPrefix) && !strings.HasPrefix(secret, joinPrefix+t.fingerprint+"_") {
			return Token{}, fmt.Errorf("%w: it is of another server", ErrUnknown)
		}
		return Token{}, ErrUnknown
	}
	k := &t.list[found]
	now := t.now().UTC()
	switch {
	case k.Revoked:
		return Token{}, fmt.Errorf("%w: %s", ErrRevoked, k.Name)
	case k.expired(now):
		return Token{}, fmt.Errorf("%w: %s, on %s", ErrExpired, k.Name, k.Expires.UTC().Format(time.RFC3339))
	}
	if now.Sub(k.Used) >= useGrain {
		k.Used, t.unsaid = now, true
	}
	return k.Token, nil
}

func (t Token) expired(now time.Time) bool { return !t.Expires.IsZero() && !now.Before(t.Expires) }

// List is every token, in the order in which they were made.
func (t *Tokens) List() []Token {
	t.mu.Lock()
	defer t.mu.Unlock()
	list := make([]Token, len(t.list))
	for i, k := range t.list {
		list[i] = k.Token
	}
	return list
}

// Revoke ends a token for good; its name stays taken.
func (t *Tokens) Revoke(name string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := t.find(name)
	if i < 0 {
		return fmt.Errorf("revoke token %.70q: %w", name, ErrNotFound)
	}
	if t.list[i].Revoked {
		return nil
	}
	now := t.now()
	another := slices.ContainsFunc(t.list, func(k kept) bool {
		return k.Role == RoleAdmin && k.Name != name && !k.Revoked && !k.expired(now)
	})
	if t.list[i].Role == RoleAdmin && !another {
		return fmt.Errorf("revoke token %q: %w", name, ErrLast)
	}
	t.list[i].Revoked = true
	if err := t.save(); err != nil {
		t.list[i].Revoked = false
		return fmt.Errorf("revoke token %q: %w", name, err)
	}
	return nil
}

// Flush writes when tokens were last used. The server calls it now and then, and at
// its end; what is lost without is only that.
func (t *Tokens) Flush() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.unsaid {
		return nil
	}
	return t.save()
}

func (t *Tokens) save() error {
	if err := store.Save(t.path, t.list); err != nil {
		return err
	}
	t.unsaid = false
	return nil
}
