package duckdb

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"

	"pillion.dev/archive"
	local "pillion.dev/internal/store"
)

// flip inverts a bit of a file.
func flip(t *testing.T, path string, at int64) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text[at] ^= 1
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestDamagedBlock: questions say which stream is damaged, as does Check from then on; the rows beside the
// damage are recovered, and the new archive has no damage.
func TestDamagedBlock(t *testing.T) {
	const rows = 150_000
	folder := t.TempDir()
	path, to := filepath.Join(folder, "a.duckdb"), filepath.Join(folder, "new.duckdb")
	other := *everything
	other.Name = "other"
	a := open(t, path, Options{})
	store(t, a, batch(t, "x", everything, 1, 0, rows), batch(t, "x", &other, 1, 0, 100))
	block := int64(-1)
	c, err := connect(a.db)
	if err == nil {
		err = c.exec(t.Context(), "CHECKPOINT")
	}
	if err == nil {
		block, err = c.number(t.Context(), "SELECT min(block_id) FROM (SELECT block_id FROM pragma_storage_info('main.everything') WHERE block_id > 0 GROUP BY ALL HAVING max(row_group_id) = 0 AND bool_or(column_name = 'f'))")
		c.close()
	}
	if err := errors.Join(err, a.Close()); err != nil || block <= 0 {
		t.Fatal(block, err)
	}
	flip(t, path, blocksAt+block*blockSize+1000)
	a = open(t, path, Options{})
	if err := a.Check(t.Context()); err != nil {
		t.Errorf("before it is read: %v", err)
	}
	drop := func(arrow.RecordBatch) error { return nil }
	for name, ask := range map[string]func() error{
		"query": func() error {
			return a.Query(t.Context(), "SELECT sum(f) FROM everything", nil, archive.Limits{}, drop)
		},
		"export": func() error { return a.Export(t.Context(), archive.Export{Stream: "everything"}, drop) },
		"backup": func() error { _, err := a.Backup(t.Context()); return err },
	} {
		err := ask()
		if !errors.Is(err, archive.ErrDamaged) || errors.Is(err, archive.ErrQuery) || !strings.Contains(err.Error(), "stream everything") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := a.Check(t.Context()); !errors.Is(err, archive.ErrDamaged) || !strings.Contains(err.Error(), "stream everything") {
		t.Errorf("check: %v", err)
	}
	if err := a.Export(t.Context(), archive.Export{Stream: "other"}, drop); err != nil {
		t.Errorf("another stream: %v", err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	outcomes, lost, err := Recover(t.Context(), path, to)
	if err != nil || lost != 0 {
		t.Fatal(lost, err)
	}
	for _, o := range outcomes {
		switch {
		case o.Stream == "everything" && (o.Rows != rows || o.Copied < rows-groupRows || o.Copied >= rows),
			o.Stream != "everything" && o.Copied != o.Rows, o.Stream == "other" && o.Rows != 100:
			t.Errorf("%+v", o)
		}
		t.Logf("%+v", o)
	}
	a = open(t, to, Options{})
	if stored, _ := store(t, a, batch(t, "x", everything, 1, 0, 1), batch(t, "x", everything, 2, 0, 1)); stored[0] || !stored[1] {
		t.Errorf("stored %v: the state of delivery differs", stored)
	}
	if err := a.Export(t.Context(), archive.Export{Stream: "everything"}, drop); err != nil {
		t.Error(err)
	}
	if _, _, err := Recover(t.Context(), path, to); !errors.Is(err, os.ErrExist) {
		t.Errorf("over an existing file: %v", err)
	}
}

// TestDamagedLog: an archive whose log is damaged does not open, and says what to do; what precedes the damage
// is recovered, and nothing is changed.
func TestDamagedLog(t *testing.T) {
	folder := t.TempDir()
	path, to := filepath.Join(folder, "a.duckdb"), filepath.Join(folder, "new.duckdb")
	a := open(t, path, Options{})
	for i := range 9 {
		store(t, a, batch(t, "x", everything, uint64(i), 100*i, 100*i+100))
	}
	text, err := os.ReadFile(path)
	log, failed := os.ReadFile(path + ".wal")
	if err := errors.Join(err, failed, a.Close()); err != nil || len(log) == 0 {
		t.Fatal(len(log), err)
	}
	if err := errors.Join(os.WriteFile(path, text, 0o600), os.WriteFile(path+".wal", log, 0o600)); err != nil {
		t.Fatal(err)
	}
	flip(t, path+".wal", int64(len(log)/2))
	if _, err := Open(path, Options{}); err == nil || !strings.Contains(err.Error(), "archive recover") {
		t.Errorf("open: %v", err)
	}
	outcomes, lost, err := Recover(t.Context(), path, to)
	if err != nil || lost <= 0 || lost >= int64(len(log)) {
		t.Fatal(lost, len(log), err)
	}
	rows := int64(0)
	for _, o := range outcomes {
		if o.Stream == "everything" {
			rows = o.Copied
		}
	}
	if rows < 100 || rows >= 900 || rows%100 != 0 {
		t.Errorf("%d rows: %+v", rows, outcomes)
	}
	after, err := os.ReadFile(path)
	if err != nil || string(after) != string(text) {
		t.Errorf("the damaged archive was changed, %v", err)
	}
}

// TestCutLog: rows that were acknowledged and are not in the archive any more are counted, once; a process that
// is killed loses none, and leaves none that would count.
func TestCutLog(t *testing.T) {
	rewrite := func(change func([]byte) []byte) func(string) error {
		return func(path string) error {
			text, err := os.ReadFile(path)
			return errors.Join(err, os.WriteFile(path, change(text), 0o600))
		}
	}
	log := func(damage func(string) error) func(string) error {
		return func(path string) error { return damage(path + ".wal") }
	}
	acknowledged := func(damage func(string) error) func(string) error {
		return func(path string) error { return damage(path + ".acknowledged") }
	}
	half := rewrite(func(text []byte) []byte { return text[:len(text)/2] })
	empty := rewrite(func([]byte) []byte { return nil })
	zeros := rewrite(func(text []byte) []byte { return make([]byte, len(text)) })
	for _, test := range []struct {
		name        string
		damage      func(path string) error
		least, most int64
	}{
		{"killed", func(string) error { return nil }, 0, 0},
		{"log halved", log(half), 1, 899},
		{"log empty", log(empty), 900, 900},
		{"log deleted", log(os.Remove), 900, 900},
		{"both deleted", func(path string) error { return errors.Join(os.Remove(path), os.Remove(path+".wal")) }, 1000, 1000},
		{"acknowledged deleted", acknowledged(os.Remove), 0, 0},
		{"acknowledged empty", acknowledged(empty), 0, 0},
		{"acknowledged halved", acknowledged(half), 0, 0},
		{"acknowledged zero", acknowledged(zeros), 0, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			folder, killed := t.TempDir(), t.TempDir()
			a := open(t, filepath.Join(folder, "a.duckdb"), Options{})
			store(t, a, batch(t, "x", everything, 1, 0, 100))
			c, err := connect(a.db)
			if err == nil {
				err = c.exec(t.Context(), "CHECKPOINT")
				c.close()
			}
			if err != nil {
				t.Fatal(err)
			}
			for i := range 9 {
				store(t, a, batch(t, "x", everything, uint64(2+i), 100*i, 100*i+100))
			}
			if err := os.CopyFS(killed, os.DirFS(folder)); err != nil { // the files as a kill leaves them
				t.Fatal(err)
			}
			path := filepath.Join(killed, "a.duckdb")
			if err := test.damage(path); err != nil {
				t.Fatal(err)
			}
			a = open(t, path, Options{})
			said := local.Notices(killed)
			if lost := a.Lost(); lost < test.least || lost > test.most || (len(said) == 1) != (lost > 0) {
				t.Errorf("%d rows are lost, want %d to %d: %q", lost, test.least, test.most, said)
			}
			store(t, a, batch(t, "x", everything, 99, 0, 1))
			if err := a.Close(); err != nil {
				t.Fatal(err)
			}
			if lost, said := open(t, path, Options{}).Lost(), local.Notices(killed); lost != 0 || len(said) > 0 {
				t.Errorf("again: %d rows, %q", lost, said)
			}
		})
	}
}
