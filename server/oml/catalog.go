package oml

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"
	"unicode"

	"pillion.dev/internal/store"
	"pillion.dev/measure"
	"pillion.dev/omsp"
)

// Limits of the state that applications can create in the server.
const (
	domainsMax = 1000
	tablesMax  = 800 // of all domains; the archive has room for 1,000 streams
	textMax    = 1024
	nameMax    = 255 // bytes of names of tables and fields
)

// catalog maps the tables of each domain to streams.
type catalog struct {
	Domains map[string]*domain `json:"domains"`
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

func (b *catalog) load(path string) error {
	if _, err := store.Load(path, b); err != nil {
		return err
	}
	if b.Domains == nil {
		b.Domains = map[string]*domain{}
	}
	now := time.Now().Unix()
	for _, d := range b.Domains { // earlier versions did not save it
		d.Used = cmp.Or(d.Used, now)
		for i := range d.Tables {
			d.Tables[i].Used = cmp.Or(d.Tables[i].Used, now)
		}
	}
	return nil
}

func (b *catalog) save(path string) error { return store.Save(path, b, 0o600) }

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
	plain := "oml_" + reduced(domain) + "_" + reduced(table)
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
