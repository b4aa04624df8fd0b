package scaffold

import (
	"bytes"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files")

func everything(t *testing.T) []byte {
	t.Helper()
	text, err := os.ReadFile("testdata/everything.yaml")
	if err != nil {
		t.Fatal(err)
	}
	a, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	if a.HeaderName() != "everything_oml.h" {
		t.Errorf("header is called %s", a.HeaderName())
	}
	return a.Header()
}

func TestHeader(t *testing.T) {
	got := everything(t)
	if *update {
		if err := os.WriteFile("testdata/everything_oml.h", got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile("testdata/everything_oml.h")
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("testdata/everything_oml.h differs (-update writes it), %v; got\n%s", err, got)
	}
}

// Compilers accept the header as C and C++ without a warning.
func TestCompile(t *testing.T) {
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "everything_oml.h"), everything(t), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{
		"gcc -std=c11", "gcc -std=c99", "g++ -x c++ -std=c++11", "clang-16 -std=c11", "clang-16 -x c++ -std=c++20",
	} {
		t.Run(command, func(t *testing.T) {
			words := strings.Fields(command)
			if _, err := exec.LookPath(words[0]); err != nil {
				t.Skipf("%s is not installed", words[0])
			}
			words = append(words, "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-I../../../clib/include", "-I"+folder, "testdata/use.c", "testdata/other.c")
			if out, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

func TestFaults(t *testing.T) {
	point := "app: a\npoints:\n  - name: p\n    fields:\n"
	for _, test := range []struct{ name, text, want string }{
		{"empty", "", `line 1: invalid app name "": use letters, digits and _`},
		{"no YAML", "app: [", "line 1: "},
		{"app", "version: 1\napp: my-app\n", `line 2: invalid app name "my-app": use letters, digits and _`},
		{"key", "app: a\nmeasurements: 1\n", `line 2: unknown field "measurements"`},
		{"no points", "app: a\n", "line 1: 0 points: use 1 to 254"},
		{"no name", "app: a\npoints:\n  - doc: x\n", "line 1: point without a name"},
		{"no fields", "app: a\npoints:\n  - name: p\n", "line 3: point p has 0 fields: use 1 to 255"},
		{"two points", point + "      - {name: f, type: int32}\n  - name: p\n", "line 6: duplicate point p"},
		{"two fields", point + "      - {name: f, type: int32}\n      - {name: f, type: int32}\n", "line 6: duplicate field f"},
		{"field", point + "      - {name: 1f, type: int32}\n", `line 5: invalid field name "1f": use letters, digits and _`},
		{"type", point + "      - name: f\n        type: int16\n", `line 6: field f: read type "int16"`},
		{"no type", point + "      - name: f\n", `line 5: field f: read type ""`},
		{"vector", point + "      - {name: f, type: [string]}\n", `line 5: field f: read type "[string]"`},
		{"name is a map", point + "      - {name: {a: 1}, type: int32}\n", "line 5: want a word, not mapping"},
		{"field is a word", point + "      - f\n", "line 5: "},
		{"length", point + "      - {name: f, type: blob}\n      - {name: f_len, type: int32}\n", "line 6: field f_len: duplicate C argument f_len"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := Parse([]byte(test.text))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %s", err, test.want)
			}
		})
	}
}

// FuzzParse: any text yields a header or an error with a reason.
func FuzzParse(f *testing.F) {
	text, err := os.ReadFile("testdata/everything.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte("app: a\npoints: [{name: b, fields: [{name: c, type: double}]}]"))
	f.Fuzz(func(t *testing.T, text []byte) {
		a, err := Parse(text)
		if err == nil && !bytes.HasPrefix(a.Header(), []byte(FirstLine)) {
			t.Error("no header")
		}
	})
}
