package server

import (
	"fmt"
	"testing"
	"time"

	"pillion.dev/internal/quota"
)

// TestSourceCannotFillTables: domains and tables are bounded for each source; others still
// create theirs, and unused ones expire.
func TestSourceCannotFillTables(t *testing.T) {
	k, _ := open(t, t.TempDir())
	k.quota = Quota{Domains: 5, Tables: 7}
	evil, good := k.For("agent evil"), k.For("user 1000")
	for n := range 8 {
		if _, err := evil.Start(fmt.Sprint("domain", n), 1); (err == nil) != (n < 5) || err != nil && quota.Of(err).Quota != "oml_domains" {
			t.Errorf("domain %d: %v", n, err)
		}
	}
	for n := range 10 {
		if _, err := evil.Table("domain0", schemaOf(t, fmt.Sprintf("1 t%d n:int32", n))); (err == nil) != (n < 7) || err != nil && quota.Of(err).Quota != "oml_tables" {
			t.Errorf("table %d: %v", n, err)
		}
	}
	if _, err := evil.Table("domain0", schemaOf(t, "1 t1 n:int32")); err != nil {
		t.Errorf("a known table: %v", err)
	}
	if _, err := good.Start("own", 1); err != nil {
		t.Error(err)
	}
	if _, err := good.Table("domain0", schemaOf(t, "1 shared n:int32")); err != nil {
		t.Error(err)
	}
	k.swept = time.Time{}
	k.sweep(time.Now().Add(unusedMost + time.Hour))
	if len(k.catalog.Domains) != 0 {
		t.Errorf("unused domains: %v", k.catalog.Domains)
	}
	if _, err := evil.Start("another", 1); err != nil {
		t.Errorf("after they expired: %v", err)
	}
}

// TestSweepGoesByTheSteadyClock: domains expire by the clock of retention, also if the server's is set.
func TestSweepGoesByTheSteadyClock(t *testing.T) {
	k, _ := open(t, t.TempDir())
	k.quota = Quota{Domains: 1, Tables: 1}
	at := &stopped{time.Now().Add(-400 * 24 * time.Hour)}
	k.clock = at
	source := k.For("user 1000")
	if _, err := source.Start("first", 1); err != nil {
		t.Fatal(err)
	}
	if _, err := source.Start("second", 1); quota.Of(err) == nil {
		t.Errorf("the first is used, but the second is admitted: %v", err)
	}
	at.Time = at.Add(unusedMost + time.Hour)
	if _, err := source.Start("second", 1); err != nil {
		t.Errorf("the first is unused: %v", err)
	}
}

// stopped is a Clock that stands still.
type stopped struct{ time.Time }

func (s *stopped) Now() time.Time    { return s.Time }
func (s *stopped) Cutoff() time.Time { return s.Time }
