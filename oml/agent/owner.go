package agent

import (
	"fmt"
	"time"

	"pillion.dev/internal/quota"
	"pillion.dev/internal/store"
	"pillion.dev/oml/omsp"
	"pillion.dev/oml/omsp/collect"
	"pillion.dev/oml/omsp/relay"
)

// domain is an experiment that applications of this host report to. It belongs to the user
// who reported first: its streams carry no user, so another one could write rows that
// look like the owner's. One that a user began who could not be determined belongs to the
// first who can: that may be the same, whose first connection was closed too early.
type domain struct {
	owner  string // as of collect.SourceOf; empty: anyone
	used   time.Time
	start  int64
	begun  bool // start is set
	tables map[string]collect.Table
}

// unusedMost is how long a domain belongs to a user who does not report to it.
const unusedMost = 31 * 24 * time.Hour

// owner is a domain on the disk.
type owner struct {
	Owner string `json:"owner"`
	Used  int64  `json:"used"` // seconds since 1970
}

// scoped is the backend of one local user.
type scoped struct {
	*Backend
	user string
}

// For implements collect.Scoped.
func (b *Backend) For(source string) collect.Backend { return &scoped{b, source} }

// Start implements collect.Backend.
func (s *scoped) Start(name string, start int64) (int64, error) { return s.begin(s.user, name, start) }

// Start implements collect.Backend, for a domain that is open to all.
func (b *Backend) Start(name string, start int64) (int64, error) { return b.begin("", name, start) }

// Table implements collect.Backend.
func (b *Backend) Table(name string, s omsp.Schema) (collect.Table, error) {
	return b.table(name, s)
}

// begin returns the start of a domain, if the user may report to it. Only the server knows
// the true start; until it adjusts times, they are relative to the start of the first
// client here.
func (b *Backend) begin(user, name string, start int64) (int64, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	d := b.domains[name]
	if d != nil && d.owner != "" && d.owner != user && now.Sub(d.used) >= unusedMost {
		delete(b.domains, name)
		d = nil
	}
	if d != nil && d.owner == collect.UnknownUser {
		d.owner = user // the first who is known
		if err := b.saveOwners(); err != nil {
			b.log.Warn("save owners of OML domains: after a restart another user can take them", "error", err)
		}
	}
	if d != nil && d.owner != "" && d.owner != user && !b.shared[name] {
		return 0, fmt.Errorf("start domain %.80q: on this host it belongs to %s, not to %s; use another domain, or list it in oml_shared", name, d.owner, user)
	}
	if d != nil && d.begun {
		d.used = now
		return d.start, nil
	}
	if _, err := (relay.Origin{Domain: name, Start: start, Table: omsp.Metadata}).Schema(); err != nil {
		return 0, err
	}
	if d == nil {
		if err := b.admitDomain(user, name, now); err != nil {
			return 0, err
		}
		d = &domain{owner: user, tables: map[string]collect.Table{}}
		b.domains[name] = d
	}
	d.start, d.begun, d.used = start, true, now
	if err := b.saveOwners(); err != nil {
		b.log.Warn("save owners of OML domains: after a restart another user can take them", "error", err)
	}
	return start, nil
}

// admitDomain forgets domains that have not been used for long, and checks the quotas.
func (b *Backend) admitDomain(user, name string, now time.Time) error {
	own := 0
	for other, d := range b.domains {
		if now.Sub(d.used) >= unusedMost {
			delete(b.domains, other)
		} else if d.owner == user {
			own++
		}
	}
	if user != "" && own >= userDomains {
		return &quota.Error{Quota: "oml_domains", Limit: userDomains, Unit: "domains for each user of a host", What: fmt.Sprintf("start domain %.80q", name)}
	}
	if len(b.domains) >= domainsMax {
		return &quota.Error{Quota: "oml_domains", Limit: domainsMax, Unit: "domains on a host", What: fmt.Sprintf("start domain %.80q", name)}
	}
	return nil
}

// table returns the relayed stream of a table.
func (b *Backend) table(name string, s omsp.Schema) (collect.Table, error) {
	s.Index = 0 // differs between clients
	b.mu.Lock()
	defer b.mu.Unlock()
	d := b.domains[name]
	if d == nil {
		return collect.Table{}, fmt.Errorf("create table %s: domain %.80q has not been started", s.Name, name)
	}
	d.used = time.Now()
	key := s.String()
	if known, ok := d.tables[key]; ok {
		return known, nil
	}
	own := 0
	for _, other := range b.domains {
		if other.owner == d.owner {
			own += len(other.tables)
		}
	}
	if own >= userTables {
		return collect.Table{}, &quota.Error{Quota: "oml_tables", Limit: userTables, Unit: "tables for each user of a host", What: "create table " + s.Name}
	}
	schema, err := relay.Origin{Domain: name, Start: d.start, Table: s}.Schema()
	if err != nil {
		return collect.Table{}, err
	}
	t := collect.Table{Name: s.Name, Schema: schema}
	d.tables[key] = t
	return t, nil
}

func (b *Backend) loadOwners() error {
	owners := map[string]owner{}
	if _, err := store.Load(b.path, &owners); err != nil {
		return err
	}
	for name, o := range owners {
		if len(b.domains) < domainsMax && o.Owner != "" {
			b.domains[name] = &domain{owner: o.Owner, used: time.Unix(o.Used, 0), tables: map[string]collect.Table{}}
		}
	}
	return nil
}

// saveOwners is called with the lock held, when a domain begins.
func (b *Backend) saveOwners() error {
	owners := map[string]owner{}
	for name, d := range b.domains {
		if d.owner != "" {
			owners[name] = owner{d.owner, d.used.Unix()}
		}
	}
	return store.Save(b.path, owners, 0o600)
}

var _ collect.Scoped = (*Backend)(nil)
