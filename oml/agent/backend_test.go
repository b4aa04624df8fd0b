package agent

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"pillion.dev/agent/spool"
	"pillion.dev/measure"
	"pillion.dev/measure/application"
	"pillion.dev/oml/omsp"
	"pillion.dev/oml/omsp/collect"
	"pillion.dev/oml/omsp/relay"
)

var quiet = slog.New(slog.DiscardHandler)

var table = omsp.Schema{Index: 3, Name: "load", Fields: []omsp.Field{{Name: "n", Type: omsp.Int64}}}

// agent is a backend with its spool in a folder.
type agent struct {
	*Backend
	spool *spool.Spool
}

func begin(t *testing.T, folder string) *agent {
	t.Helper()
	k, err := Open(folder, nil, quiet)
	if err != nil {
		t.Fatal(err)
	}
	s, err := spool.Open(filepath.Join(folder, "spool"), spool.Options{Found: k.Found})
	if err != nil {
		t.Fatal(err)
	}
	if err := k.Use(s); err != nil {
		t.Fatal(err)
	}
	a := &agent{k, s}
	t.Cleanup(a.end)
	return a
}

func (a *agent) end() {
	a.Close()
	a.spool.Close()
	a.Forget()
}

// rowsOf returns a batch of a session, numbered from..to.
func rowsOf(t collect.Table, session uint64, from, to int64) arrow.RecordBatch {
	b := array.NewRecordBuilder(memory.DefaultAllocator, t.Schema.Arrow())
	defer b.Release()
	for seq := from; seq <= to; seq++ {
		b.Field(0).(*array.TimestampBuilder).Append(arrow.Timestamp(seq))
		b.Field(1).(*array.StringBuilder).Append("sender")
		b.Field(2).(*array.Uint64Builder).Append(session)
		b.Field(3).(*array.Int64Builder).Append(seq)
		b.Field(4).(*array.Float64Builder).Append(1)
		b.Field(5).(*array.Float64Builder).Append(1)
		b.Field(6).(*array.Int64Builder).Append(seq)
	}
	return b.NewRecordBatch()
}

func (a *agent) store(t *testing.T, to collect.Table, session uint64, first, last int64) {
	t.Helper()
	r := rowsOf(to, session, first, last)
	defer r.Release()
	calls := 0
	a.Store(to.Schema, r, func(err error) {
		if calls++; err != nil {
			t.Error(err)
		}
	})
	if calls != 1 {
		t.Errorf("%d callbacks for one batch", calls)
	}
}

func (a *agent) last(t *testing.T, session uint64, of collect.Table) int64 {
	t.Helper()
	last, err := a.Stored(t.Context(), session, of)
	if err != nil {
		t.Fatal(err)
	}
	return last
}

func (a *agent) table(t *testing.T, domain string, s omsp.Schema) collect.Table {
	t.Helper()
	if _, err := a.Start(domain, 1000); err != nil {
		t.Fatal(err)
	}
	made, err := a.Table(domain, s)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// TestSessionsAfterRestart: what is in the spool is known after a restart, even if its
// entry is lost, damaged or torn.
func TestSessionsAfterRestart(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "oml.marks")
	a := begin(t, folder)
	load, other := a.table(t, "lab", table), a.table(t, "other", table)
	a.store(t, load, 7, 1, 10)
	a.store(t, load, 8, 1, 3)
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	a.store(t, load, 7, 11, 20)
	a.store(t, other, 7, 1, 5)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	a.end()
	damaged := append([]byte("??"), whole...)
	damaged[30] ^= 1
	for name, text := range map[string][]byte{
		"complete": whole, "killed before the entry": before, "torn": whole[:len(whole)-5], "damaged": damaged, "none": nil,
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.WriteFile(path, text, 0o600); err != nil {
				t.Fatal(err)
			}
			a := begin(t, folder)
			if got := []int64{a.last(t, 7, load), a.last(t, 8, load), a.last(t, 7, other), a.last(t, 9, load)}; fmt.Sprint(got) != "[20 3 5 0]" {
				t.Errorf("sessions resume after %v", got)
			}
			a.end()
		})
	}
	// Entries suffice when the spool is empty.
	if err := errors.Join(os.WriteFile(path, whole, 0o600), os.RemoveAll(filepath.Join(folder, "spool"))); err != nil {
		t.Fatal(err)
	}
	if got := begin(t, folder).last(t, 7, load); got != 20 {
		t.Errorf("session resumes after %d", got)
	}
}

// TestMarksAreBounded: the oldest sessions are forgotten, and the file does not grow.
func TestMarksAreBounded(t *testing.T) {
	folder := t.TempDir()
	m, err := openMarks(folder, quiet)
	if err != nil {
		t.Fatal(err)
	}
	defer m.close()
	name := relay.Prefix + strings.Repeat("0a", 16)
	for i := range uint64(entriesMax + marksMax + 5) {
		m.record(i%(marksMax+5), measure.Key{Stream: name, Epoch: 1, Sequence: i}, int64(i)+1)
	}
	info, err := os.Stat(m.path)
	if err != nil || info.Size() > entryBytes*(entriesMax+1) || len(m.seqs) != marksMax || len(m.order) != marksMax {
		t.Errorf("%d bytes, %d marks in order of %d, %v", info.Size(), len(m.seqs), len(m.order), err)
	}
	m.record(1, measure.Key{Stream: "flows"}, 5)
	m.record(1, measure.Key{Stream: relay.Connections.Name}, 5)
	if m.last(1, "flows") != 0 {
		t.Error("marks were kept for other streams")
	}
}

// FuzzMarks: any file can be read.
func FuzzMarks(f *testing.F) {
	f.Add(appendEntry(nil, markKey{session: 1}, mark{2, 3, 4}))
	f.Fuzz(func(t *testing.T, text []byte) {
		m := &marks{seqs: map[markKey]mark{}, covered: map[lineKey]uint64{}}
		m.parse(text)
		if len(m.order) != len(m.seqs) || len(m.seqs) > len(text)/entryBytes {
			t.Errorf("%d marks of %d bytes", len(m.seqs), len(text))
		}
	})
}

// TestBackend: tables have distinct names, ends of connections go to the spool, and the
// number of domains is limited.
func TestBackend(t *testing.T) {
	a := begin(t, t.TempDir())
	load := a.table(t, "lab", table)
	if start, err := a.Start("lab", 5000); err != nil || start != 1000 {
		t.Errorf("start %d, %v, want that of the first client, 1000", start, err)
	}
	second := table
	second.Index = 9
	if again := a.table(t, "lab", second); again.Schema.Name != load.Schema.Name {
		t.Error("the client's index changes the stream")
	}
	if o, err := relay.OriginOf(load.Schema); err != nil || o.Domain != "lab" || o.Start != 1000 || o.Table.Name != "load" {
		t.Errorf("origin %v, %v", o, err)
	}
	a.Ended(collect.Connection{Domain: "lab", Tuples: 3})
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if n := a.spool.Stats().Batches; n != 1 {
		t.Errorf("%d batches of an end", n)
	}
	for i := range domainsMax {
		if _, err := a.Start(fmt.Sprint(i), 1); (err != nil) != (i >= domainsMax-1) {
			t.Fatalf("domain %d: %v", i, err)
		}
	}
	if _, err := a.Start("lab", 1); err != nil {
		t.Errorf("a known domain is refused: %v", err)
	}
}

// narrow accepts only small batches.
type narrow struct {
	application.Spool
	kept int64
}

func (n *narrow) Hold(_ *measure.Schema, r arrow.RecordBatch, kept func(measure.Key, error)) error {
	if r.NumRows() > 3 {
		return spool.ErrTooLarge
	}
	n.kept += r.NumRows()
	kept(measure.Key{}, nil)
	return nil
}

func TestSplitStreams(t *testing.T) {
	a := begin(t, t.TempDir())
	load := a.table(t, "lab", table)
	n := &narrow{}
	a.Backend.spool = n
	a.store(t, load, 1, 1, 100)
	if n.kept != 100 {
		t.Errorf("%d rows are kept", n.kept)
	}
}

// filters are told what is stored.
type filters struct {
	replace bool
	taken   int64
	ended   []string
}

func (f *filters) Take(_ *measure.Schema, record arrow.RecordBatch) bool {
	f.taken += record.NumRows()
	return f.replace
}

func (f *filters) Ended(domain, sender string) { f.ended = append(f.ended, domain+" "+sender) }

// TestFilters: filters take each tuple of a session once, and what they replace counts as
// stored, also after a restart.
func TestFilters(t *testing.T) {
	folder := t.TempDir()
	a := begin(t, folder)
	f := &filters{}
	a.Filter(f)
	load := a.table(t, "lab", table)
	a.store(t, load, 7, 1, 10)
	a.store(t, load, 7, 6, 12) // sent again
	a.store(t, load, 0, 1, 3)  // a client without acknowledgements
	a.store(t, load, 0, 1, 3)
	if f.taken != 18 || a.last(t, 7, load) != 12 || a.spool.Stats().Batches != 4 {
		t.Errorf("%d tuples filtered, last %d, %d batches", f.taken, a.last(t, 7, load), a.spool.Stats().Batches)
	}
	f.replace = true
	a.store(t, load, 8, 1, 5)
	a.Ended(collect.Connection{Domain: "lab", Sender: "me"})
	if f.taken != 23 || a.last(t, 8, load) != 5 || a.spool.Stats().Batches != 4 || fmt.Sprint(f.ended) != "[lab me]" {
		t.Errorf("%d tuples filtered, last %d, %d batches, ended %v", f.taken, a.last(t, 8, load), a.spool.Stats().Batches, f.ended)
	}
	a.end()
	if got := begin(t, folder).last(t, 8, load); got != 5 {
		t.Errorf("after a restart the session resumes after %d", got)
	}
}
