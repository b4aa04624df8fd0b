package oml

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"unicode"

	"pillion.dev/archive"
	"pillion.dev/measure"
	"pillion.dev/omsp"
	"pillion.dev/server/store"
)

// Limits of what applications can make the server remember.
const (
	domainsMax = 1000
	tablesMax  = 800 // of all domains; the archive has room for 1,000 streams
	textMax    = 1024
	nameMax    = 255 // bytes of names of tables and fields
)

// book says which table of which domain is which stream.
type book struct {
	Domains map[string]*domain `json:"domains"`
}

type domain struct {
	// Start of the first client, seconds since 1970.
	Start  int64   `json:"start"`
	Tables []entry `json:"tables"`
}

type entry struct {
	Name   string `json:"name"`
	Stream string `json:"stream"`
	// Schema as in a header, without the index, which is the client's.
	Schema string `json:"schema"`
}

func (b *book) load(path string) error {
	if _, err := store.Load(path, b); err != nil {
		return err
	}
	if b.Domains == nil {
		b.Domains = map[string]*domain{}
	}
	return nil
}

func (b *book) save(path string) error { return store.Save(path, b) }

func (b *book) domain(name string) (d *domain, fresh bool, err error) {
	if d = b.Domains[name]; d != nil {
		return d, false, nil
	}
	if len(name) > textMax || len(b.Domains) >= domainsMax {
		return nil, false, fmt.Errorf("begin domain %.80q: at most %d domains, with names of at most %d bytes", name, domainsMax, textMax)
	}
	d = &domain{}
	b.Domains[name] = d
	return d, true, nil
}

// find is the table with these fields, if there is one.
func (b *book) find(name string, s omsp.Schema) (entry, bool) {
	if d := b.Domains[name]; d != nil {
		for _, t := range d.Tables {
			if t.Schema == s.String() {
				return t, true
			}
		}
	}
	return entry{}, false
}

// plan is a table that is not in the book yet: with the stream's name, or with _2,
// _3, ... behind it where that is taken.
func (b *book) plan(name string, s omsp.Schema) (entry, error) {
	d, _, err := b.domain(name)
	if err != nil {
		return entry{}, err
	}
	if len(s.Name) > nameMax {
		return entry{}, fmt.Errorf("begin table %.80s...: its name has %d bytes: at most %d", s.Name, len(s.Name), nameMax)
	}
	count := 0
	for _, one := range b.Domains {
		count += len(one.Tables)
	}
	if count >= tablesMax {
		return entry{}, fmt.Errorf("begin table %s: there are %d already", s.Name, count)
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

// stream is a name for the archive that no other table has.
func (b *book) stream(domain, table string) string {
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

// reduced has small letters and digits only, and _ for all else.
func reduced(text string) string {
	return strings.Map(func(r rune) rune {
		r = unicode.ToLower(r)
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, text)
}

// inText is a name that the book gives back as it was: JSON has no other text.
func inText(name string) string { return strings.ToValidUTF8(name, "\uFFFD") }

// printable is a name that can be shown.
func printable(name string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == unicode.ReplacementChar {
			return '?'
		}
		return r
	}, strings.ToValidUTF8(name[:min(len(name), 200)], "?"))
}

// text is a value of the archive: bounded, and UTF-8.
func text(s string) measure.Value {
	return measure.StringValue(strings.ToValidUTF8(s[:min(len(s), 64<<10)], "\uFFFD"))
}

// unknown reports that there is no such stream yet.
func unknown(err error) bool {
	return errors.Is(err, archive.ErrUnknown) || errors.Is(err, archive.ErrQuery) && strings.Contains(err.Error(), "does not exist")
}
