package duckdb

import (
	"path/filepath"
	"testing"

	"pillion.dev/archive"
	"pillion.dev/archive/ledger"
	"pillion.dev/measure"
)

// large returns batches of several senders with enough rows for several parts.
func large(t *testing.T) []archive.Batch {
	t.Helper()
	one, two := schemaOf("one", measure.Field{Name: "a", Type: measure.Int64}), schemaOf("two", measure.Field{Name: "b", Type: measure.String})
	var all []archive.Batch
	for sequence := range uint64(4) {
		all = append(all, batch(t, "x", one, sequence, 0, 30_000), batch(t, "y", one, sequence, 0, 20_000), batch(t, "x", two, sequence, 0, 40_000))
	}
	return all
}

func TestDivide(t *testing.T) {
	a := open(t, filepath.Join(t.TempDir(), "a"), Options{})
	c := a.plan(large(t))
	parts := c.divide(2)
	if len(parts) != 2 {
		t.Fatalf("%d parts", len(parts))
	}
	places, home := map[int]bool{}, map[ledger.Sender]int{}
	for p, part := range parts {
		for _, i := range part.Fresh() {
			if before, known := home[ledger.SenderOf(&c.Batches[i])]; places[i] || known && before != p {
				t.Errorf("batch %d or its sender is in two parts", i)
			}
			places[i], home[ledger.SenderOf(&c.Batches[i])] = true, p
		}
		if len(part.States) == 0 {
			t.Errorf("part %d is empty", p)
		}
	}
	if len(places) != len(c.Batches) {
		t.Errorf("%d of %d batches are in parts", len(places), len(c.Batches))
	}
	if n := len(a.plan(large(t)[:3]).divide(2)); n != 1 {
		t.Errorf("few rows are divided into %d parts", n)
	}
}

// TestParts: each row is stored once, whether all parts are written at once, or one only
// when it is retried.
func TestParts(t *testing.T) {
	for name, spoil := range map[string]func(*Archive) error{
		"all good": func(*Archive) error { return nil },
		"a part fails": func(a *Archive) error {
			if len(a.more) == 0 {
				t.Skip("one processor")
			}
			return a.more[0].exec(t.Context(), "BEGIN") // so that it cannot begin again
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "a")
			a := open(t, path, Options{})
			if err := spoil(a); err != nil {
				t.Fatal(err)
			}
			for round, want := range []bool{true, false} {
				stored, rejected := store(t, a, large(t)...)
				for i := range stored {
					if stored[i] != want || rejected[i] != nil {
						t.Errorf("round %d, batch %d: stored %v, %v", round, i, stored[i], rejected[i])
					}
				}
			}
			if err := a.Close(); err != nil {
				t.Fatal(err)
			}
			a = open(t, path, Options{})
			if one, two := count(t, a, "SELECT count(*) FROM one"), count(t, a, "SELECT count(*) FROM two"); one != 200_000 || two != 160_000 {
				t.Errorf("%d and %d rows", one, two)
			}
			if d, err := a.Delivered(t.Context(), "x"); err != nil || d["one"].Rows != 120_000 || d["two"].Batches != 4 || d["two"].Missing != 0 {
				t.Errorf("%+v, %v", d, err)
			}
		})
	}
}
