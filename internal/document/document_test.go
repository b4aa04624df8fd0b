package document

import (
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"pillion.dev/internal/quantity"
)

type list struct {
	Names []string
	Items []struct {
		A string
		B answer
	}
}

type answer bool

func (a *answer) UnmarshalText(text []byte) error {
	if *a = string(text) == "yes"; !*a {
		return errors.New("want yes")
	}
	return nil
}

func (a *answer) UnmarshalYAML(decode func(any) error) error { return Text(decode, a) }

// broken makes the parser panic.
type broken struct{}

func (*broken) UnmarshalYAML([]byte) error { panic("a node is missing") }

func TestPanic(t *testing.T) {
	var b broken
	if _, err := Decode([]byte("a: b"), &b); !errors.Is(err, ErrSense) {
		t.Error(err)
	}
}

func TestDecode(t *testing.T) {
	for _, test := range []struct {
		name, text, fault string
		more              bool
	}{
		{"good", "names: [a, b]", "", false},
		{"nothing", "", io.EOF.Error(), false},
		{"unknown key", "name: a", `line 1: unknown field "name"`, false},
		{"two keys", "names: [a]\nnames: [b]", "line 2: mapping key \"names\" already defined", false},
		{"text", "items:\n  - b: &x yes\n  - b: *x", "", false},
		{"bad text", "items:\n  - b: yes\n  - b: no", "line 3: want yes", false},
		{"no text", "items:\n  - b: [yes]", "line 2: ", false},
		{"two documents", "names: [a]\n---\nnames: [b]", "", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			var l list
			more, err := Decode([]byte(test.text), &l)
			if more != test.more || (err == nil) != (test.fault == "") || err != nil && !strings.Contains(err.Error(), test.fault) {
				t.Errorf("more %v, %v", more, err)
			}
		})
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte("names: [a, b]\nitems: [{a: b}]"))
	f.Add([]byte("items:\n  - a: A.\n    b:\n      ! 0\n  - 0: 0\nnames: !"))
	f.Fuzz(func(t *testing.T, text []byte) {
		var l list
		if more, err := Decode(text, &l); more && err != nil {
			t.Error(errors.New("more, and an error"))
		}
	})
}

func TestDurations(t *testing.T) {
	for text, fault := range map[string]string{"every: 7d": "", "every: '1h30m'": "",
		"every: 1h # hourly": "", "every: 5": `line 1: every: "5" is not a duration`, "size: 5\nevery: soon": `line 2: every: "soon" is not a duration`,
		"size: 5x # five": `line 1: size: "5x" is not a size`, "size: 5\nevery: 5": `"5" is not a duration`, "size: 5\nevery: [5s]": "a list"} {
		var c struct {
			Every time.Duration
			Size  quantity.Size
		}
		_, err := Decode([]byte(text), &c)
		if fault == "" && (err != nil || c.Every <= 0) || fault != "" && (err == nil || !strings.Contains(err.Error(), fault)) {
			t.Errorf("%s: got %v, %v", text, c.Every, err)
		}
	}
}

// TestWrongTypes: what is wrong is said in the words of the document.
func TestWrongTypes(t *testing.T) {
	for text, want := range map[string]string{
		"flag: maybe": `line 1: "maybe" is not true or false`, "\nlist: 7": "line 2: a number in place of a list",
		"small: 300": "line 1: 300 is out of range", "small: x": `line 1: "x" is not a whole number`, "more: [1]": "a list in place of a map",
	} {
		var into struct {
			Flag  bool
			List  []string
			Small uint8
			More  struct{ X int }
		}
		_, err := Decode([]byte(text), &into)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "Go ") {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}
