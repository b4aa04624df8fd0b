package authority

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base32"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"pillion.dev/bus"
	"pillion.dev/internal/every"
	"pillion.dev/server/store"
	"pillion.dev/session"
)

// Roles of tokens. Each of the first four includes those before it.
const (
	RoleViewer   = "viewer"
	RoleAnalyst  = "analyst" // may ask SQL
	RoleOperator = "operator"
	RoleAdmin    = "admin"
	RoleJoin     = "join" // only lets hosts join
	// ScopedPrefix precedes the role of a token with a scope, which versions without scopes refuse as unknown: they would
	// show everything, and drop the scope when they note that the token was used.
	ScopedPrefix = "scoped-"
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
	// Scope limits a viewer or analyst, whose role begins with ScopedPrefix. An empty one permits nothing.
	Scope session.Scope `json:"scope,omitempty"`
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
	// Site of which those that join with it are aggregators: they send rows of the site's agents.
	Site string `json:"site,omitempty"`
}

// stored is a token in the file, with the hash of its secret.
type stored struct {
	Token
	Hash string `json:"hash"` // SHA-256, hexadecimal
	key  string // of its item
}

// Tokens are the secrets of users and joining hosts. Only their hashes are stored; a
// secret has 160 random bits, so that an unsalted hash resists brute force.
type Tokens struct {
	store       store.Store
	now         func() time.Time
	fingerprint string
	revocations *revocations

	mu   sync.Mutex
	list []stored
	// dirty tokens, by the keys of their items, differ from the store.
	dirty map[string]bool
}

const (
	apiPrefix   = "pt_"
	joinPrefix  = "pj_"
	secretBytes = 20
	secretLimit = 256
	tokensLimit = 1000
	usedStep    = time.Minute
	tokensKept  = "tokens"         // collection and section
	saveTime    = 10 * time.Second // limit of a write
)

var secretText = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// Create adds a token with this name, role, expiry and bounds, and returns its secret,
// which cannot be retrieved again. With a zero time it never expires.
func (t *Tokens) Create(wanted Token) (Token, string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var secret string
	err := t.change(func() (err error) {
		secret, err = t.add(wanted, secret)
		return err
	})
	if err != nil {
		return Token{}, "", fmt.Errorf("create token %.70q: %w", wanted.Name, err)
	}
	return t.list[t.find(wanted.Name)].Token, secret, nil
}

// add adds a token and returns its secret: the secret of an earlier attempt, if there was one. Its
// token may be stored although another one that was written with it was not.
func (t *Tokens) add(wanted Token, earlier string) (secret string, err error) {
	name, role, expires := wanted.Name, wanted.Role, wanted.Expires
	if i := t.find(name); i >= 0 && earlier != "" && t.list[i].Hash == hash(earlier) {
		return earlier, nil
	}
	if err := wanted.checkBounds(); err != nil {
		return "", err
	}
	if err := wanted.checkScope(); err != nil {
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
	made := Token{Name: name, Role: role, Created: t.now().UTC(), Expires: expires, Scope: slices.Clone(wanted.Scope), JoinBounds: wanted.JoinBounds}
	if len(made.Scope) > 0 {
		made.Role = ScopedPrefix + role
	}
	made.Uses, made.Labels = 0, maps.Clone(wanted.Labels)
	number := uint64(0)
	if n := len(t.list); n > 0 {
		_, last := store.Own(t.list[n-1].key)
		number, _ = strconv.ParseUint(last, 10, 64) // the key was made here
		number++
	}
	key := store.Key(tokensKept, store.Position(number))
	t.list = append(t.list, stored{made, hash(secret), key})
	t.dirty[key] = true
	return secret, nil
}

func (t *Token) checkScope() error {
	if len(t.Scope) == 0 {
		return nil
	}
	if t.Role != RoleViewer && t.Role != RoleAnalyst {
		return fmt.Errorf("%w: only viewers and analysts can be limited to a scope", ErrInvalid)
	}
	if err := t.Scope.Check(); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return nil
}

// labelsMax is the most labels that a join token gives.
const labelsMax = 64

func (t *Token) checkBounds() error {
	bounded := t.MaxUses != 0 || t.Agents != "" || len(t.Labels) != 0 || t.Site != ""
	switch {
	case bounded && t.Role != RoleJoin:
		return fmt.Errorf("%w: only join tokens are limited to uses and agents, and give labels and a site", ErrInvalid)
	case t.Agents != "" && !bus.ValidAgent(strings.ReplaceAll(t.Agents, "*", "x")):
		return fmt.Errorf("%w: agents %.70q: use a name, or a pattern such as rack7-*", ErrInvalid, t.Agents)
	case t.Site != "" && !bus.ValidAgent(t.Site):
		return fmt.Errorf("%w: site %.70q: use at most 63 lowercase letters, digits and inner hyphens", ErrInvalid, t.Site)
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
	count := func() error {
		if i := t.find(name); i >= 0 {
			t.list[i].Uses++
			t.dirty[t.list[i].key] = true
		}
		return nil
	}
	if err := t.change(count); err != nil {
		_ = count() // Flush and the next change repeat it
	}
	if i := t.find(name); i >= 0 && t.list[i].usedUp() {
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
	t.markRevoked()
}

// markRevoked is applyRevocations. The caller holds the lock.
func (t *Tokens) markRevoked() {
	for i := range t.list {
		k := &t.list[i]
		one, revoked := t.revocations.token(k.Hash)
		switch {
		case !revoked:
		case one.Used && !k.usedUp() && k.MaxUses != 0:
			k.Uses, t.dirty[k.key] = k.MaxUses, true
		case !one.Used && !k.Revoked:
			k.Revoked, t.dirty[k.key] = true, true
		}
	}
}

// recordRevocations adds to the list what it lacks, because a server could not write it.
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
// with all but ErrUnknown it returns the token too.
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
		return k.Token, fmt.Errorf("%w: %s", ErrRevoked, k.Name)
	case k.expired(now):
		return k.Token, fmt.Errorf("%w: %s, on %s", ErrExpired, k.Name, k.Expires.UTC().Format(time.RFC3339))
	case k.usedUp():
		return k.Token, fmt.Errorf("%w: %s: %d of %d hosts have joined with it", ErrUsedUp, k.Name, k.Uses, k.MaxUses)
	}
	if now.Sub(k.Used) >= usedStep {
		k.Used, t.dirty[k.key] = now, true
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
	if err := t.change(func() error { return t.revoke(name) }); err != nil {
		return fmt.Errorf("revoke token %.70q: %w", name, err)
	}
	return nil
}

func (t *Tokens) revoke(name string) error {
	i := t.find(name)
	if i < 0 {
		return ErrNotFound
	}
	if t.list[i].Revoked {
		return nil
	}
	now := t.now()
	another := slices.ContainsFunc(t.list, func(k stored) bool {
		return k.Role == RoleAdmin && k.Name != name && !k.Revoked && !k.expired(now)
	})
	if t.list[i].Role == RoleAdmin && !another {
		return ErrLast
	}
	t.list[i].Revoked, t.dirty[t.list[i].key] = true, true
	_, err := t.revocations.record(t.revocation(i))
	return err
}

// Flush writes when tokens were last used. The server calls it when it stops; after a
// crash only these times are lost.
func (t *Tokens) Flush() error {
	if t == nil { // a start failed before they were open
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.change(func() error { return nil })
}

// change changes tokens and writes them; after an error it has changed none. If another server was
// faster, it repeats that with what this one wrote. The caller holds the lock.
func (t *Tokens) change(do func() error) error {
	return store.Repeat(func() error {
		list, dirty := slices.Clone(t.list), maps.Clone(t.dirty)
		err := do()
		if err == nil {
			err = t.save()
		}
		if err != nil {
			t.list, t.dirty = list, dirty
		}
		return err
	}, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), saveTime)
		defer cancel()
		return t.load(ctx)
	})
}

// save writes the tokens that differ from the store.
func (t *Tokens) save() error {
	var list []stored
	for _, k := range t.list {
		if t.dirty[k.key] {
			list = append(list, k)
		}
	}
	if len(list) == 0 {
		return nil
	}
	if err := t.write(list); err != nil {
		return err
	}
	clear(t.dirty)
	return nil
}

func (t *Tokens) write(list []stored) error {
	items := map[string][]byte{}
	for _, k := range list {
		text, err := json.Marshal(k)
		if err != nil {
			return err
		}
		items[k.key] = text
	}
	ctx, cancel := context.WithTimeout(context.Background(), saveTime)
	defer cancel()
	if err := t.store.Write(ctx, tokensKept, items); err != nil {
		return err
	}
	for _, k := range list {
		delete(t.dirty, k.key)
	}
	return nil
}

// reload replaces the tokens by the store's.
func (t *Tokens) reload(ctx context.Context) error {
	t.mu.Lock()
	err := t.load(ctx)
	t.mu.Unlock()
	if err == nil {
		t.applyRevocations()
	}
	return err
}

// load replaces the tokens by the store's. The caller holds the lock.
func (t *Tokens) load(ctx context.Context) error {
	items, err := t.store.Load(ctx, tokensKept)
	if err != nil {
		return err
	}
	before := t.list
	t.list = nil
	for _, key := range slices.Sorted(maps.Keys(items)) {
		k := stored{key: key}
		if err := json.Unmarshal(items[key], &k); err != nil {
			t.list = before
			return fmt.Errorf("read token: %w", err)
		}
		t.list = append(t.list, k)
	}
	for _, old := range before {
		t.keepUse(old)
	}
	return nil
}

// keepUse takes over when this server last saw a token used.
func (t *Tokens) keepUse(old stored) {
	for i := range t.list {
		if k := &t.list[i]; k.Hash == old.Hash && old.Used.After(k.Used) {
			k.Used, t.dirty[k.key] = old.Used, true
		}
	}
}

// flushing writes when tokens were last used, until the context ends: other servers show it.
func (t *Tokens) flushing(ctx context.Context) {
	every.Do(ctx, usedStep, func() {
		_ = t.Flush() // repeated a minute later
	})
}

// followed applies what another server has written; tokens are never deleted. The caller holds the lock.
func (t *Tokens) followed(key string, item []byte) {
	k := stored{key: key}
	if json.Unmarshal(item, &k) != nil {
		return // the next load reports it
	}
	at, found := slices.BinarySearchFunc(t.list, key, func(k stored, key string) int { return strings.Compare(k.key, key) })
	if found {
		old := t.list[at]
		t.list[at] = k
		t.keepUse(old)
	} else {
		t.list = slices.Insert(t.list, at, k)
	}
	t.markRevoked()
}
