package store

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pillion.dev/internal/test/section"
)

var update = flag.Bool("update", false, "write the table of docs/howto/recover.md")

// parse accepts the documents of these tests.
func parse(text []byte) error {
	if !json.Valid(text) || !strings.HasPrefix(string(text), `{"n":`) {
		return errors.New("not a document")
	}
	return nil
}

// damages are what happens to a file.
var damages = []struct {
	name string
	do   func(path string, text []byte) error
	// unseen: without a checksum nobody can tell.
	unseen bool
}{
	{"empty", func(path string, _ []byte) error { return os.WriteFile(path, nil, 0o600) }, false},
	{"halved", func(path string, text []byte) error { return os.WriteFile(path, text[:5], 0o600) }, false},
	{"one bit", func(path string, text []byte) error {
		text[6] ^= 1 // the digit
		return os.WriteFile(path, text, 0o600)
	}, true},
	{"zeros", func(path string, text []byte) error { return os.WriteFile(path, make([]byte, len(text)), 0o600) }, false},
	{"deleted", func(path string, _ []byte) error { return os.Remove(path) }, false},
	{"unreadable", func(path string, _ []byte) error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o700)) }, false},
}

func TestDamagedStateFiles(t *testing.T) {
	for _, file := range Files {
		for _, damage := range damages {
			for _, previous := range []bool{true, false} {
				if damage.unseen && filepath.Ext(file.Name) != ".json" {
					continue
				}
				t.Run(fmt.Sprintf("%s %s, previous %t", file.Name, damage.name, previous), func(t *testing.T) {
					folder := t.TempDir()
					path := filepath.Join(folder, file.Name)
					for n := range 2 {
						if err := Write(path, fmt.Appendf(nil, `{"n": %d}`, n), 0o600); err != nil {
							t.Fatal(err)
						}
					}
					text, err := os.ReadFile(path)
					if err == nil {
						err = damage.do(path, text)
					}
					if !previous {
						err = errors.Join(err, os.Remove(path+".previous"))
					}
					if err != nil {
						t.Fatal(err)
					}
					got, err := Read(path, parse)
					said := strings.Join(Notices(folder), "\n")
					switch {
					case previous:
						if strings.TrimSpace(string(got)) != `{"n": 0}` || err != nil || !strings.Contains(said, path+" is damaged or missing") {
							t.Errorf("read %q, said %q, %v", got, said, err)
						}
						again, err := Read(path, parse)
						if list := Notices(folder); err != nil || string(again) != string(got) && file.Name != "authority.pem" || len(list) > 0 {
							t.Errorf("then %q, said %q, %v", again, list, err)
						}
					case damage.name == "deleted":
						if got != nil || err != nil || said != "" {
							t.Errorf("read %q, said %q, %v", got, said, err)
						}
					case file.Class == Required:
						if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), file.Lost) || !strings.Contains(err.Error(), "restore a backup") {
							t.Errorf("read %q, %v", got, err)
						}
						if _, err := os.Stat(path); err != nil {
							t.Errorf("the file is gone: %v", err)
						}
					default:
						if got != nil || err != nil || !strings.Contains(said, path) || !strings.Contains(said, file.Lost) {
							t.Errorf("read %q, said %q, %v", got, said, err)
						}
						if _, err := os.Stat(path + ".damaged"); err != nil {
							t.Error(err)
						}
					}
				})
			}
		}
	}
}

// TestSealedFilesAreJSON: earlier versions read them, and this one theirs.
func TestSealedFilesAreJSON(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agents.json")
	if err := Write(path, []byte("{\"n\": 7}\n\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil || !json.Valid(text) {
		t.Fatalf("%q, %v", text, err)
	}
	if err := os.WriteFile(path, []byte("{\"n\": 8}\n"), 0o600); err != nil { // by an earlier version, or a hand
		t.Fatal(err)
	}
	if got, err := Read(path, parse); err != nil || string(got) != "{\"n\": 8}\n" {
		t.Errorf("read %q, %v", got, err)
	}
}

// TestRecoverDocument: the document has the table of state files.
func TestRecoverDocument(t *testing.T) {
	want := "| file | class | lost without it |\n|---|---|---|\n"
	for _, f := range Files {
		want += fmt.Sprintf("| `%s` | %s | %s |\n", f.Name, f.Class, f.Lost)
	}
	section.Check(t, "../../docs/howto/recover.md", "<!-- files: begin -->\n", "<!-- files: end -->", want, *update)
}
