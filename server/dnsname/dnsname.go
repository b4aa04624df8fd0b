// Package dnsname asks the domain name system for the names of addresses (PTR records, RFC 1035), in the background. In the flow it
// stands beside the API, which shows the names of routers.
package dnsname

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// keepName is how long a name is used before it is asked for again, keepNone how long after an answer without one or none.
	keepName = time.Hour
	keepNone = 10 * time.Minute
	// timeout of a lookup.
	timeout = 10 * time.Second
	// atOnce bounds the lookups.
	atOnce = 8
	// most bounds the addresses kept, of about 150 bytes each.
	most = 100_000
)

// Lookup returns the names of an address, as net.Resolver.LookupAddr does.
type Lookup func(ctx context.Context, address string) ([]string, error)

// Resolver keeps the names of addresses. Its methods are safe for concurrent use. The nil Resolver knows no name.
type Resolver struct {
	lookup Lookup
	now    func() time.Time
	ctx    context.Context
	slots  chan struct{}

	mu    sync.Mutex
	known map[netip.Addr]entry
	tasks sync.WaitGroup
}

type entry struct {
	name    string
	asking  bool
	expires time.Time
}

// New returns a resolver that asks until the context ends.
func New(ctx context.Context, lookup Lookup) *Resolver {
	return &Resolver{lookup: lookup, now: time.Now, ctx: ctx, slots: make(chan struct{}, atOnce), known: map[netip.Addr]entry{}}
}

// System is the lookup of the operating system's resolver.
func System() Lookup { return net.DefaultResolver.LookupAddr }

// Name returns the name of an address if it is known, without a final dot, and otherwise asks for it, so that a later call knows
// it. An expired name is returned until the next is known.
func (r *Resolver) Name(address string) string {
	if r == nil {
		return ""
	}
	parsed, err := netip.ParseAddr(address)
	if err != nil {
		return ""
	}
	parsed = parsed.Unmap().WithZone("")
	r.mu.Lock()
	defer r.mu.Unlock()
	e, known := r.known[parsed]
	if e.asking || known && r.now().Before(e.expires) || r.ctx.Err() != nil || !known && !r.room() {
		return e.name
	}
	e.asking = true
	r.known[parsed] = e
	r.tasks.Go(func() { r.ask(parsed) })
	return e.name
}

// room reports whether another address may be kept, dropping expired ones if there is none.
func (r *Resolver) room() bool {
	if len(r.known) < most {
		return true
	}
	now := r.now()
	for address, e := range r.known {
		if !e.asking && now.After(e.expires) {
			delete(r.known, address)
		}
	}
	return len(r.known) < most
}

// ask keeps the name of an address; while the name servers do not answer, the last one.
func (r *Resolver) ask(address netip.Addr) {
	select {
	case r.slots <- struct{}{}:
	case <-r.ctx.Done():
		return
	}
	ctx, cancel := context.WithTimeout(r.ctx, timeout)
	found, err := r.lookup(ctx, address.String())
	cancel()
	<-r.slots
	r.mu.Lock()
	defer r.mu.Unlock()
	e := entry{name: first(found), expires: r.now().Add(keepName)}
	if e.name == "" {
		e.expires = r.now().Add(keepNone)
		if missing := (*net.DNSError)(nil); err != nil && !(errors.As(err, &missing) && missing.IsNotFound) {
			e.name = r.known[address].name
		}
	}
	r.known[address] = e
}

// first returns the same of several names each time: the shortest, of these the first in alphabetical order.
func first(found []string) string {
	var valid []string
	for _, name := range found {
		if name = strings.TrimSuffix(name, "."); isName(name) {
			valid = append(valid, name)
		}
	}
	if len(valid) == 0 {
		return ""
	}
	return slices.MinFunc(valid, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b)) })
}

// isName reports whether text, which the owner of the address chose, is a host name of letters, digits, hyphens, underscores and
// dots, and no address.
func isName(text string) bool {
	if _, err := netip.ParseAddr(text); err == nil || text == "" || len(text) > 253 {
		return false
	}
	return !strings.ContainsFunc(text, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_' && c != '.'
	})
}
