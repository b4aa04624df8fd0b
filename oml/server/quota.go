package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"pillion.dev/archive"
	"pillion.dev/internal/quota"
	"pillion.dev/server/store"
)

// Quota bounds what one source can create; zero: the default, 100.
type Quota struct{ Domains, Tables int }

const (
	quotaDefault = 100
	// unusedMost is how long a domain or table is kept that nobody uses and that has no rows.
	unusedMost = 31 * 24 * time.Hour
	sweepTime  = 5 * time.Second
)

func (q Quota) complete() Quota {
	if q.Domains == 0 {
		q.Domains = quotaDefault
	}
	if q.Tables == 0 {
		q.Tables = quotaDefault
	}
	return q
}

// admitDomain checks the quota of a source for a domain. The caller holds the lock.
func (k *Backend) admitDomain(source, domain string) error {
	if source == "" || k.catalog.Domains[domain] != nil {
		return nil
	}
	count := func() (n int) {
		for _, d := range k.catalog.Domains {
			if d.Source == source {
				n++
			}
		}
		return n
	}
	if count() >= k.quota.Domains || len(k.catalog.Domains) >= domainsMax {
		k.sweep(k.clock.Cutoff())
	}
	if count() >= k.quota.Domains {
		return &quota.Error{Quota: "oml_domains", Limit: int64(k.quota.Domains), Unit: "domains for each agent, address or local user", What: fmt.Sprintf("create OML domain %.80q", domain)}
	}
	return nil
}

// admitTable checks the quota of a source for another table.
func (k *Backend) admitTable(source, name string) error {
	if source == "" {
		return nil
	}
	all := 0
	count := func() (n int) {
		all = 0
		for _, d := range k.catalog.Domains {
			for _, t := range d.Tables {
				if all++; t.Source == source {
					n++
				}
			}
		}
		return n
	}
	if count() >= k.quota.Tables || all >= tablesMax {
		k.sweep(k.clock.Cutoff())
	}
	if count() >= k.quota.Tables {
		return &quota.Error{Quota: "oml_tables", Limit: int64(k.quota.Tables), Unit: "tables for each agent, address or local user", What: fmt.Sprintf("create OML table %.80q", name)}
	}
	return nil
}

// sweep removes the tables that have been unused for long and whose streams the archive
// has dropped, then the domains without tables. A stream that exists keeps its name: it
// has the columns of its table.
func (k *Backend) sweep(now time.Time) {
	if now.Sub(k.swept) < time.Minute {
		return
	}
	k.swept = now
	ctx, cancel := context.WithTimeout(context.Background(), sweepTime)
	defer cancel()
	old := now.Add(-unusedMost).Unix()
	for name, d := range k.catalog.Domains {
		before := len(d.Tables)
		d.Tables = slices.DeleteFunc(d.Tables, func(t entry) bool {
			if t.Used == 0 || t.Used > old || k.exists(ctx, t.Stream) {
				return false
			}
			delete(k.made, t.Stream)
			if _, claimed := k.catalog.claims[t.Stream]; claimed {
				delete(k.catalog.claims, t.Stream)
				k.catalog.changed[store.Key(streamsSection, t.Stream)] = true
			}
			return true
		})
		if len(d.Tables) != before {
			k.catalog.change(name)
		}
		if len(d.Tables) == 0 && d.Used != 0 && d.Used <= old {
			delete(k.catalog.Domains, name)
			k.catalog.change(name)
		}
	}
	if err := k.save(); err != nil { // the next one repeats it
		k.log.Warn("save OML domains", "error", err)
	}
}

func (k *Backend) exists(ctx context.Context, stream string) bool {
	err := k.archive.Export(ctx, archive.Export{Stream: stream, Limit: 1}, func(arrow.RecordBatch) error { return nil })
	return !errors.Is(err, archive.ErrUnknown)
}

// use notes that a table is used.
func (b *catalog) use(domain, stream string, now time.Time) {
	if d := b.Domains[domain]; d != nil {
		for i := range d.Tables {
			if d.Tables[i].Stream == stream {
				d.Tables[i].Used = now.Unix()
				b.change(domain)
			}
		}
	}
}
