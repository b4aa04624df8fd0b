package authority

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"pillion.dev/server/store"
)

// Revocation ends the validity of an agent's certificates, or of a token, for ever.
type Revocation struct {
	Agent string `json:"agent,omitempty"`
	// Through is the generation up to which the agent's certificates are revoked: the name
	// may be assigned again later.
	Through uint64 `json:"through,omitempty"`
	// Token is the hash of a token's secret. If Used is set, the token was used up.
	Token string    `json:"token,omitempty"`
	Used  bool      `json:"used,omitempty"`
	Time  time.Time `json:"time"`
}

// revocations is the list of all revocations. It never shrinks, and outlives the other
// documents: when these are restored from a backup, the list is merged with the one of the
// replaced data directory, and with those that agents carry. It is signed, so that an
// agent can carry it but not change it.
type revocations struct {
	store store.Store
	key   *ecdsa.PrivateKey
	now   func() time.Time

	writing sync.Mutex // held while the list is loaded or written
	mu      sync.Mutex
	agents  map[string]Revocation
	tokens  map[string]Revocation
	signed  []byte // the file
}

// signedList is the file. Payload is JSON, a list of Revocation.
type signedList struct {
	Payload   []byte `json:"payload"`
	Signature []byte `json:"signature"` // ECDSA, ASN.1, of its digest
}

const (
	revocationsKept = "revocations" // a collection with a single item
	revocationsFile = revocationsKept + ".json"
	// revocationsLimit bounds a list from outside, bytes.
	revocationsLimit = 4 << 20
)

// ErrRevocations marks a list of revocations that this authority did not sign.
var ErrRevocations = errors.New("list of revocations is not signed by this authority")

func digest(payload []byte) []byte {
	sum := sha256.New()
	sum.Write([]byte("pillion revocations 1\n")) // the key also signs certificates
	sum.Write(payload)
	return sum.Sum(nil)
}

// parseRevocations reads a list, and verifies its signature unless the key is nil.
func parseRevocations(text []byte, key *ecdsa.PublicKey) (list []Revocation, err error) {
	if len(text) > revocationsLimit {
		return nil, fmt.Errorf("list of revocations: %d bytes, limit %d", len(text), revocationsLimit)
	}
	var s signedList
	if err := json.Unmarshal(text, &s); err != nil {
		return nil, fmt.Errorf("list of revocations: %w", err)
	}
	if key != nil && !ecdsa.VerifyASN1(key, digest(s.Payload), s.Signature) {
		return nil, ErrRevocations
	}
	if err := json.Unmarshal(s.Payload, &list); err != nil {
		return nil, fmt.Errorf("list of revocations: %w", err)
	}
	return list, nil
}

func openRevocations(ctx context.Context, kept store.Store, key *ecdsa.PrivateKey, now func() time.Time) (*revocations, error) {
	r := &revocations{store: kept, key: key, now: now, agents: map[string]Revocation{}, tokens: map[string]Revocation{}}
	return r, r.reload(ctx)
}

// reload adds the revocations of the store.
func (r *revocations) reload(ctx context.Context) error {
	r.writing.Lock()
	defer r.writing.Unlock()
	return r.load(ctx)
}

func (r *revocations) load(ctx context.Context) error {
	items, err := r.store.Load(ctx, revocationsKept)
	if err != nil || items[store.Whole] == nil {
		return err
	}
	return r.merge(items[store.Whole])
}

// merge adds the revocations of the store's item.
func (r *revocations) merge(item []byte) error {
	// A directory is this server's own: its list stays valid if the authority is replaced.
	var key *ecdsa.PublicKey
	if r.store.Shared() {
		key = &r.key.PublicKey
	}
	list, err := parseRevocations(item, key)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.add(list)
	return r.sign()
}

// add returns those that are new. The caller holds the lock.
func (r *revocations) add(list []Revocation) (added []Revocation) {
	for _, one := range list {
		of, name := r.agents, one.Agent
		if one.Agent == "" {
			of, name = r.tokens, one.Token
		}
		// A token that was used up may be revoked later.
		if held, known := of[name]; name != "" && (!known || one.Through > held.Through || held.Used && !one.Used) {
			of[name] = one
			added = append(added, one)
		}
	}
	return added
}

// sign makes the item. The caller holds the lock.
func (r *revocations) sign() error {
	list := slices.AppendSeq(slices.Collect(maps.Values(r.agents)), maps.Values(r.tokens))
	slices.SortFunc(list, func(a, b Revocation) int {
		return cmp.Or(a.Time.Compare(b.Time), strings.Compare(a.Agent, b.Agent), strings.Compare(a.Token, b.Token))
	})
	payload, err := json.Marshal(list)
	if err != nil {
		return err
	}
	signature, err := ecdsa.SignASN1(rand.Reader, r.key, digest(payload))
	if err != nil {
		return err
	}
	r.signed, err = json.Marshal(signedList{payload, signature})
	return err
}

// record adds revocations and writes the list; after an error none is in effect. If another server
// was faster, it adds them to what this one wrote.
func (r *revocations) record(list ...Revocation) (added []Revocation, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), saveTime)
	defer cancel()
	r.writing.Lock()
	defer r.writing.Unlock()
	err = store.Repeat(func() (err error) {
		added, err = r.write(ctx, list)
		return err
	}, func() error { return r.load(ctx) })
	return added, err
}

func (r *revocations) write(ctx context.Context, list []Revocation) (added []Revocation, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	agents, tokens, signed := maps.Clone(r.agents), maps.Clone(r.tokens), r.signed
	if added = r.add(list); len(added) == 0 {
		return nil, nil
	}
	if err = r.sign(); err == nil {
		err = r.store.Write(ctx, revocationsKept, map[string][]byte{store.Whole: r.signed})
	}
	if err != nil {
		r.agents, r.tokens, r.signed = agents, tokens, signed
		return nil, err
	}
	return added, nil
}

func (r *revocations) through(agent string) (generation uint64, revoked bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	one, revoked := r.agents[agent]
	return one.Through, revoked
}

func (r *revocations) token(hash string) (one Revocation, revoked bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	one, revoked = r.tokens[hash]
	return one, revoked
}

// RevokeAgent revokes all certificates that were issued to an agent, of which the latest
// known has that generation.
func (a *Authority) RevokeAgent(name string, generation uint64) error {
	through := max(generation, uint64(a.options.Now().UnixNano()))
	if _, err := a.revocations.record(Revocation{Agent: name, Through: through, Time: a.options.Now().UTC()}); err != nil {
		return fmt.Errorf("record revocation: %w", err)
	}
	return nil
}

// AgentRevoked reports whether certificates of that generation of an agent are revoked.
func (a *Authority) AgentRevoked(name string, generation uint64) bool {
	through, revoked := a.revocations.through(name)
	return revoked && generation <= through
}

// Revocations returns the signed list, for agents to carry; nil if it is empty.
func (a *Authority) Revocations() []byte {
	a.revocations.mu.Lock()
	defer a.revocations.mu.Unlock()
	if len(a.revocations.agents)+len(a.revocations.tokens) == 0 {
		return nil
	}
	return a.revocations.signed
}

// MergeRevocations adds the revocations of a list that this authority signed: a server
// whose data was restored from a backup learns from agents what was revoked since. It
// returns the agents that have revocations new to it.
func (a *Authority) MergeRevocations(signed []byte) (agents []string, err error) {
	list, err := parseRevocations(signed, &a.key.PublicKey)
	if err != nil {
		return nil, err
	}
	added, err := a.revocations.record(list...)
	if err != nil {
		return nil, fmt.Errorf("merge revocations: %w", err)
	}
	for _, one := range added {
		if one.Agent != "" {
			agents = append(agents, one.Agent)
		}
	}
	if len(added) > len(agents) {
		a.Tokens.applyRevocations()
	}
	return agents, nil
}

// MergePrevious adds to a restored data directory what was revoked in the one that it
// replaces, and returns the number of revocations and the file that it wrote.
func MergePrevious(folder, previous string) (added int, path string, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("merge revocations of %s: %w", previous, err)
		}
	}()
	kept, err := store.NewFiles(previous).Load(context.Background(), revocationsKept)
	if err != nil || kept[store.Whole] == nil {
		return 0, "", err
	}
	a := &Authority{folder: folder, options: Options{Now: time.Now}}
	own, err := a.openIdentity(authorityFile, func() (*identity, error) { return nil, errors.New("it has no authority") })
	if err != nil {
		return 0, "", err
	}
	list, err := parseRevocations(kept[store.Whole], &own.key.PublicKey)
	if err != nil {
		return 0, "", err
	}
	r, err := openRevocations(context.Background(), store.NewFiles(folder), own.key, time.Now)
	if err != nil {
		return 0, "", err
	}
	merged, err := r.record(list...)
	return len(merged), filepath.Join(folder, revocationsFile), err
}
