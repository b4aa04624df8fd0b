package experiment

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestJournalSurvivesACrash(t *testing.T) {
	folder := t.TempDir()
	j, err := OpenJournal(folder, 2)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 5 { // two blocks of two runs, and half of the third
		if err := j.Append(Row{Block: i / 2, Position: i % 2, Attempt: 1, Valid: true, Kept: true, Started: time.Unix(int64(i), 0)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(folder, JournalFile)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	whole := len(text)
	text = append(text, `{"block":2,"posi`...) // the line that was being written
	for cut := whole; cut <= len(text); cut++ {
		if err := os.WriteFile(path, text[:cut], 0o644); err != nil {
			t.Fatal(err)
		}
		j, err := OpenJournal(folder, 2)
		if err != nil {
			t.Fatal(err)
		}
		rows := j.Rows()
		if len(rows) != 5 || Complete(rows, 2) != 2 || rows[3].Kept == false || rows[4].Kept {
			t.Fatalf("after %d bytes: %+v", cut, rows)
		}
		if err := j.Append(Row{Block: 2, Valid: true, Kept: true}); err != nil {
			t.Fatal(err)
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		if again, torn, err := ReadJournal(folder); err != nil || torn || len(again) != 6 || !again[5].Kept || again[4].Kept {
			t.Fatalf("read again: %+v, %v, %v", again, torn, err)
		}
	}
}

func TestInvalidRunsDoNotCompleteABlock(t *testing.T) {
	rows := []Row{{Position: 0, Valid: true, Kept: true}, {Position: 1, Kept: true}, {Position: 1, Valid: true}}
	if n := Complete(rows, 2); n != 0 {
		t.Errorf("%d blocks are complete", n)
	}
	if n := Complete(append(rows, Row{Position: 1, Attempt: 2, Valid: true, Kept: true}), 2); n != 1 {
		t.Errorf("%d blocks are complete", n)
	}
}

func TestChangedDesign(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "results")
	s := parse(t, minimal)
	if err := Compare(folder, s); !errors.Is(err, ErrNoResults) {
		t.Errorf("without results: %v", err)
	}
	if err := Create(folder, s, []byte(minimal), map[string]any{"kernel": "x"}, time.Unix(0, 0)); err != nil {
		t.Fatal(err)
	}
	if err := Create(folder, s, []byte(minimal), nil, time.Unix(0, 0)); !errors.Is(err, ErrExists) {
		t.Errorf("a second time: %v", err)
	}
	if err := Compare(folder, parse(t, "description: other words\n"+minimal)); err != nil {
		t.Errorf("another description: %v", err)
	}
	for name, c := range map[string]struct{ from, to, want string }{
		"command": {"echo {mark}", "echo x {mark}", `run.command: "echo {mark} {every}", now "echo x {mark} {every}"`},
		"level":   {"[1, 10]", "[1, 10, 100]", `factors[1].levels[2].name: added: "100"`},
		"seed":    {"factors:", "seed: 4\nfactors:", "seed: 0, now 4"},
		"stop":    {"2%", "3%", "stop.half_width: 0.02, now 0.03"},
		"invalid": {"stop:", "invalid: 'rate < 1'\nstop:", `invalid: added: "rate < 1"`},
	} {
		t.Run(name, func(t *testing.T) {
			err := Compare(folder, parse(t, strings.Replace(minimal, c.from, c.to, 1)))
			if !errors.Is(err, ErrChanged) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error is %v, want %q", err, c.want)
			}
		})
	}
}

func FuzzJournal(f *testing.F) {
	f.Add([]byte("{\"block\":0,\"valid\":true,\"kept\":true,\"measures\":{\"rate\":1}}\n{\"blo"))
	s, err := Parse([]byte(simple))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		rows, _, err := parseJournal(text)
		if err != nil {
			return
		}
		p := Progress(s, rows)
		_, _ = p.Line(), p.Ending()
		if p.Blocks > len(rows) {
			t.Errorf("%d blocks from %d rows", p.Blocks, len(rows))
		}
	})
}
