package authority

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base32"
	"encoding/hex"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"pillion.dev/bus"
	"pillion.dev/internal/store"
	"pillion.dev/session"
)

// Roles of tokens. Each of the first four includes those before it.
const (
	RoleViewer   = "viewer"
	RoleAnalyst  = "analyst" // may ask SQL
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
	JoinBounds
}

// JoinBounds limit a join token; other tokens have none.
type JoinBounds struct {
	// MaxUses is how many hosts may join with it; 0: any number. Uses is how many have.
	MaxUses uint32 `json:"max_uses,omitempty"`
	Uses    uint32 `json:"uses,omitempty"`
	// Agents is the name of the only agent that may join with it, or a pattern with *;
	// empty: any name.
	Agents string `json:"agents,omitempty"`
	// Labels that agents get when they join with it.
	Labels map[string]string `json:"labels,omitempty"`
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
	revocations *revocations

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

// Create adds a token with this name, role, expiry and bounds, and returns its secret,
// which cannot be retrieved again. With a zero time it never expires.
func (t *Tokens) Create(wanted Token) (Token, string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	secret, err := t.add(wanted)
	if err != nil {
		return Token{}, "", fmt.Errorf("create token %.70q: %w", wanted.Name, err)
	}
	if err := t.save(); err != nil {
		t.list = t.list[:len(t.list)-1]
		return Token{}, "", fmt.Errorf("create token %q: %w", wanted.Name, err)
	}
	return t.list[len(t.list)-1].Token, secret, nil
}

func (t *Tokens) add(wanted Token) (secret string, err error) {
	name, role, expires := wanted.Name, wanted.Role, wanted.Expires
	if err := wanted.checkBounds(); err != nil {
		return "", err
	}
	switch {
	case !bus.ValidAgent(name):
		return "", fmt.Errorf("%w: name %.70q: use at most 63 lowercase letters, digits and inner hyphens", ErrInvalid, name)
	case !slices.Contains([]string{RoleViewer, RoleAnalyst, RoleOperator, RoleAdmin, RoleJoin}, role):
		return "", fmt.Errorf("%w: role %.20q: use viewer, analyst, operator, admin or join", ErrInvalid, role)
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
	made := Token{Name: name, Role: role, Created: t.now().UTC(), Expires: expires, JoinBounds: wanted.JoinBounds}
	made.Uses, made.Labels = 0, maps.Clone(wanted.Labels)
	t.list = append(t.list, stored{made, hash(secret)})
	return secret, nil
}

// labelsMax is the most labels that a join token gives.
const labelsMax = 64

func (t *Token) checkBounds() error {
	bounded := t.MaxUses != 0 || t.Agents != "" || len(t.Labels) != 0
	switch {
	case bounded && t.Role != RoleJoin:
		return fmt.Errorf("%w: only join tokens are limited to uses and agents, and give labels", ErrInvalid)
	case t.Agents != "" && !bus.ValidAgent(strings.ReplaceAll(t.Agents, "*", "x")):
		return fmt.Errorf("%w: agents %.70q: use a name, or a pattern such as rack7-*", ErrInvalid, t.Agents)
	case len(t.Labels) > labelsMax:
		return fmt.Errorf("%w: %d labels, at most %d", ErrInvalid, len(t.Labels), labelsMax)
	}
	for key, value := range t.Labels {
		if !session.ValidLabel(key, value) {
			return fmt.Errorf("%w: label %.140q: use letters, digits and ._/- inside, at most 63 for key and value", ErrInvalid, key+"="+value)
		}
	}
	return nil
}

// permits returns why an agent of that name may not join with the token, or nil.
func (t *Token) permits(name string) error {
	if t.Role != RoleJoin {
		return fmt.Errorf("%w: token %q has role %s, want a join token", ErrRole, t.Name, t.Role)
	}
	if t.Agents == "" {
		return nil
	}
	if matched, err := path.Match(t.Agents, name); err != nil || !matched {
		return fmt.Errorf("%w: %s permits only the name %s", ErrBound, t.Name, t.Agents)
	}
	return nil
}

// use counts a host that has joined with a token. It is counted in memory in any case:
// the host has joined, and an error would make it ask again.
func (t *Tokens) use(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := t.find(name)
	if i < 0 {
		return
	}
	t.list[i].Uses++
	t.dirty = true
	_ = t.save() // Flush and the next change repeat it
	if t.list[i].usedUp() {
		_, _ = t.revocations.record(t.revocation(i)) // only for a restore, and repeated at the next start
	}
}

func (t *Tokens) revocation(i int) Revocation {
	return Revocation{Token: t.list[i].Hash, Used: !t.list[i].Revoked, Time: t.now().UTC()}
}

// applyRevocations marks tokens that were revoked or used up according to the list of
// revocations: the tokens may be older, from a backup.
func (t *Tokens) applyRevocations() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range t.list {
		k := &t.list[i]
		one, revoked := t.revocations.token(k.Hash)
		switch {
		case !revoked:
		case one.Used && !k.usedUp() && k.MaxUses != 0:
			k.Uses, t.dirty = k.MaxUses, true
		case !one.Used && !k.Revoked:
			k.Revoked, t.dirty = true, true
		}
	}
}

// recordRevocations adds to the list what it lacks: versions before it only marked tokens.
func (t *Tokens) recordRevocations() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	var list []Revocation
	for i, k := range t.list {
		if _, known := t.revocations.token(k.Hash); !known && (k.Revoked || k.usedUp()) {
			list = append(list, t.revocation(i))
		}
	}
	_, err := t.revocations.record(list...)
	return err
}

func hash(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

func (t *Tokens) find(name string) int {
	return slices.IndexFunc(t.list, func(k stored) bool { return k.Name == name })
}

// Check returns the token of the secret, or ErrUnknown, ErrExpired, ErrRevoked, ErrUsedUp;
// with ErrExpired and ErrUsedUp it returns the token too.
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
		return k.Token, fmt.Errorf("%w: %s, on %s", ErrExpired, k.Name, k.Expires.UTC().Format(time.RFC3339))
	case k.usedUp():
		return k.Token, fmt.Errorf("%w: %s: %d of %d hosts have joined with it", ErrUsedUp, k.Name, k.Uses, k.MaxUses)
	}
	if now.Sub(k.Used) >= usedStep {
		k.Used, t.dirty = now, true
	}
	return k.Token, nil
}

func (t Token) expired(now time.Time) bool { return !t.Expires.IsZero() && !now.Before(t.Expires) }

func (t Token) usedUp() bool { return t.MaxUses != 0 && t.Uses >= t.MaxUses }

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
	_, err := t.revocations.record(t.revocation(i))
	if err == nil {
		err = t.save()
	}
	if err != nil {
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
