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
	"pillion.dev/internal/store"
)

// Roles of tokens. Each of the first three includes those before it.
const (
	RoleViewer   = "viewer"
	RoleOperator = "operator"
	RoleAdmin    = "admin"
	RoleJoin     = "join" // only lets hosts join
)

// Token without its secret.
type Token struct {
	Name    string    `json:"name"`
	Role    string    `json:"role"`
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires,omitzero"` // zero: never
	// Used is when it was last used, to the minute.
	Used    time.Time `json:"used,omitzero"`
	Revoked bool      `json:"revoked,omitempty"`
}

// stored is a token in the file, with the hash of its secret.
type stored struct {
	Token
	Hash string `json:"hash"` // SHA-256, hexadecimal
}

// Tokens are the secrets of users and joining hosts. Only their hashes are stored; a
// secret has 160 random bits, so that an unsalted hash resists brute force.
type Tokens struct {
	path        string
	now         func() time.Time
	fingerprint string

	mu    sync.Mutex
	list  []stored
	dirty bool // Used has changed since the file was written
}

const (
	apiPrefix   = "pt_"
	joinPrefix  = "pj_"
	secretBytes = 20
	secretLimit = 256
	tokensLimit = 1000
	usedStep    = time.Minute
)

var secretText = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// Create adds a token and returns its secret, which cannot be retrieved again. With a
// zero time it never expires.
func (t *Tokens) Create(name, role string, expires time.Time) (Token, string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	secret, err := t.add(name, role, expires)
	if err != nil {
		return Token{}, "", fmt.Errorf("create token %.70q: %w", name, err)
	}
	if err := t.save(); err != nil {
		t.list = t.list[:len(t.list)-1]
		return Token{}, "", fmt.Errorf("create token %q: %w", name, err)
	}
	return t.list[len(t.list)-1].Token, secret, nil
}

func (t *Tokens) add(name, role string, expires time.Time) (secret string, err error) {
	switch {
	case !bus.ValidAgent(name):
		return "", fmt.Errorf("%w: name %.70q: use at most 63 lowercase letters, digits and inner hyphens", ErrInvalid, name)
	case !slices.Contains([]string{RoleViewer, RoleOperator, RoleAdmin, RoleJoin}, role):
		return "", fmt.Errorf("%w: role %.20q: use viewer, operator, admin or join", ErrInvalid, role)
	case !expires.IsZero() && !expires.After(t.now()):
		return "", fmt.Errorf("%w: expiry %s is in the past", ErrInvalid, expires.UTC().Format(time.RFC3339))
	case len(t.list) >= tokensLimit:
		return "", fmt.Errorf("%w: limit of %d tokens reached", ErrInvalid, len(t.list))
	case t.find(name) >= 0:
		return "", fmt.Errorf("name: %w", ErrExists)
	}
	bytes := make([]byte, secretBytes)
	rand.Read(bytes) // never fails
	secret = apiPrefix + secretText.EncodeToString(bytes)
	if role == RoleJoin {
		secret = joinPrefix + t.fingerprint + "_" + secretText.EncodeToString(bytes)
	}
	t.list = append(t.list, stored{Token{Name: name, Role: role, Created: t.now().UTC(), Expires: expires}, hash(secret)})
	return secret, nil
}

func hash(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

func (t *Tokens) find(name string) int {
	return slices.IndexFunc(t.list, func(k stored) bool { return k.Name == name })
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
	for i := range t.list { // all of them: the time must not reveal which
		if subtle.ConstantTimeCompare(own, []byte(t.list[i].Hash)) == 1 {
			found = i
		}
	}
	if found < 0 {
		if strings.HasPrefix(secret, joinPrefix) && !strings.HasPrefix(secret, joinPrefix+t.fingerprint+"_") {
			return Token{}, fmt.Errorf("%w: issued by another server", ErrUnknown)
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
	if now.Sub(k.Used) >= usedStep {
		k.Used, t.dirty = now, true
	}
	return k.Token, nil
}

func (t Token) expired(now time.Time) bool { return !t.Expires.IsZero() && !now.Before(t.Expires) }

// List returns all tokens in the order of creation.
func (t *Tokens) List() []Token {
	t.mu.Lock()
	defer t.mu.Unlock()
	list := make([]Token, len(t.list))
	for i, k := range t.list {
		list[i] = k.Token
	}
	return list
}

// Revoke revokes a token permanently; its name stays in use.
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
	another := slices.ContainsFunc(t.list, func(k stored) bool {
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

// Flush writes when tokens were last used. The server calls it when it stops; after a
// crash only these times are lost.
func (t *Tokens) Flush() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.dirty {
		return nil
	}
	return t.save()
}

func (t *Tokens) save() error {
	if err := store.Save(t.path, t.list, 0o600); err != nil {
		return err
	}
	t.dirty = false
	return nil
}
