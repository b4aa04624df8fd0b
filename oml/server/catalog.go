package server

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode"

	"pillion.dev/measure"
	"pillion.dev/measure/application"
	"pillion.dev/oml/omsp"
	"pillion.dev/server/store"
)

// Limits of the state that applications can create in the server.
const (
	domainsMax = 1000
	tablesMax  = 800 // of all domains; the archive has room for 1,000 streams
	textMax    = 1024
	nameMax    = 255 // bytes of names of tables and fields
)

// Collection of the catalog and its sections.
const (
	collection     = application.Collection
	domainsSection = "domains"
	streamsSection = "streams"
)

// catalog maps the tables of each domain to streams.
type catalog struct {
	Domains map[string]*domain
	// claims are the streams that servers have reserved for tables before they add them: two
	// servers may create tables at the same time.
	claims map[string]claim
	// changed items differ from the store.
	changed map[string]bool
}

// claim is the table for which a stream is reserved.
type claim struct {
	Domain string `json:"domain"`
	Table  string `json:"table"`
}

type domain struct {
	// Start of the first client, seconds since 1970.
	Start int64 `json:"start"`
	// Source created it; Used is when it was last used, seconds since 1970.
	Source string  `json:"source,omitempty"`
	Used   int64   `json:"used,omitempty"`
	Tables []entry `json:"tables"`
}

type entry struct {
	Name   string `json:"name"`
	Stream string `json:"stream"`
	// Schema as in a header, with the index 0.
	Schema string `json:"schema"`
	Source string `json:"source,omitempty"`
	Used   int64  `json:"used,omitempty"`
}

// load makes these items the catalog, except that what was used since stays known.
func (b *catalog) load(items map[string][]byte) error {
	before := b.Domains
	*b = catalog{Domains: map[string]*domain{}, claims: map[string]claim{}, changed: map[string]bool{}}
	for key, item := range items {
		if err := b.set(key, item, before); err != nil {
			return err
		}
	}
	return nil
}

// set replaces an item by the store's; nil: it is deleted.
func (b *catalog) set(key string, item []byte, before map[string]*domain) error {
	section, name := store.Own(key)
	switch {
	case section == domainsSection && item == nil:
		delete(b.Domains, name)
	case section == domainsSection:
		var d domain
		if err := json.Unmarshal(item, &d); err != nil {
			return fmt.Errorf("load OML domain %.80q: %w", name, err)
		}
		d.keepUse(before[name], time.Now().Unix())
		b.Domains[name] = &d
	case section == streamsSection && item == nil:
		delete(b.claims, name)
	case section == streamsSection:
		var c claim
		if err := json.Unmarshal(item, &c); err != nil {
			return fmt.Errorf("load OML stream %.80q: %w", name, err)
		}
		b.claims[name] = c
	}
	delete(b.changed, key)
	return nil
}

// keepUse takes over when the domain and its tables were last used.
func (d *domain) keepUse(old *domain, now int64) {
	used := map[string]int64{}
	if old != nil {
		d.Used = max(d.Used, old.Used)
		for _, t := range old.Tables {
			used[t.Stream] = t.Used
		}
	}
	d.Used = cmp.Or(d.Used, now)
	for i := range d.Tables {
		t := &d.Tables[i]
		t.Used = cmp.Or(max(t.Used, used[t.Stream]), now)
	}
}

// change notes that a domain differs from the store.
func (b *catalog) change(domain string) { b.changed[store.Key(domainsSection, domain)] = true }

// items returns what differs from the store.
func (b *catalog) items() (map[string][]byte, error) {
	items := map[string][]byte{}
	for key := range b.changed {
		items[key] = nil
		section, name := store.Own(key)
		var value any
		if d := b.Domains[name]; section == domainsSection && d != nil {
			value = d
		} else if c, found := b.claims[name]; section == streamsSection && found {
			value = c
		} else {
			continue
		}
		text, err := json.Marshal(value)
		if err != nil {
			return nil, err
		}
		items[key] = text
	}
	return items, nil
}

func (b *catalog) domain(name string) (d *domain, fresh bool, err error) {
	if d = b.Domains[name]; d != nil {
		return d, false, nil
	}
	if len(name) > textMax || len(b.Domains) >= domainsMax {
		return nil, false, fmt.Errorf("create domain %.80q: at most %d domains, with names of at most %d bytes", name, domainsMax, textMax)
	}
	d = &domain{}
	b.Domains[name] = d
	return d, true, nil
}

// find returns the table with these fields, if it exists.
func (b *catalog) find(name string, s omsp.Schema) (entry, bool) {
	if d := b.Domains[name]; d != nil {
		for _, t := range d.Tables {
			if t.Schema == s.String() {
				return t, true
			}
		}
	}
	return entry{}, false
}

// plan returns an entry for a new table: named after the stream, with the suffix _2,
// _3, ... if that name is in use.
func (b *catalog) plan(name string, s omsp.Schema) (entry, error) {
	d, _, err := b.domain(name)
	if err != nil {
		return entry{}, err
	}
	if len(s.Name) > nameMax {
		return entry{}, fmt.Errorf("create table %.80s...: name of %d bytes, limit %d", s.Name, len(s.Name), nameMax)
	}
	count := 0
	for _, one := range b.Domains {
		count += len(one.Tables)
	}
	if count >= tablesMax {
		return entry{}, fmt.Errorf("create table %s: limit of %d tables reached", s.Name, count)
	}
	taken := map[string]bool{}
	for _, t := range d.Tables {
		taken[t.Name] = true
	}
	table := s.Name
	for n := 2; taken[table]; n++ {
		table = fmt.Sprintf("%s_%d", s.Name, n)
	}
	return entry{Name: table, Stream: b.stream(name, table), Schema: s.String()}, nil
}

const streamBytes = 63

// stream returns an unused stream name.
func (b *catalog) stream(domain, table string) string {
	used := map[string]bool{Metadata.Name: true, Connections.Name: true, Tables.Name: true}
	for _, d := range b.Domains {
		for _, t := range d.Tables {
			used[t.Stream] = true
		}
	}
	for name, by := range b.claims {
		if by != (claim{domain, table}) {
			used[name] = true
		}
	}
	plain := application.Prefix + reduced(domain) + "_" + reduced(table)
	name := plain
	for n := 0; len(name) > streamBytes || used[name] || !measure.ValidName(name); n++ {
		sum := sha256.Sum256(fmt.Appendf(nil, "%d\x00%s\x00%s", n, domain, table))
		end := "_" + hex.EncodeToString(sum[:4])
		name = plain[:min(len(plain), streamBytes-len(end))] + end
	}
	return name
}

// reduced replaces all but lowercase letters and digits by _.
func reduced(text string) string {
	return strings.Map(func(r rune) rune {
		r = unicode.ToLower(r)
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, text)
}

// inText makes a name valid UTF-8, which JSON preserves.
func inText(name string) string { return strings.ToValidUTF8(name, "\uFFFD") }

// printable replaces control characters.
func printable(name string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == unicode.ReplacementChar {
			return '?'
		}
		return r
	}, strings.ToValidUTF8(name[:min(len(name), 200)], "?"))
}
