package document

import (
	"strings"
	"testing"
)

func TestDecodeAll(t *testing.T) {
	for _, test := range []struct {
		name, text string
		read       bool
		want       []string // what the lines of the error begin with
	}{
		{"nothing", "", true, nil},
		{"valid", "name: a\ncount: 1\n", true, nil},
		{"unknown keys", "nmae: a\ncount: 1\nconut: 2\n", true, []string{"line 1: ", "line 3: "}},
		{"an unknown key and a wrong value", "nmae: a\ncount: many\n", true, []string{"line 1: ", "line 2: "}},
		{"an unknown key with a map", "nmae:\n  a: 1\n\n  b: 2\ncount: many\n", true, []string{"line 1: ", "line 5: "}},
		{"unknown keys in a map", "inner:\n  dpeth: 1\n  depth: x\nnmae: a\n", true, []string{"line 2: ", "line 3: ", "line 4: "}},
		{"the only key of a map", "inner:\n  dpeth: 1\ncount: x\n", true, []string{"line 2: ", "line 3: "}},
		{"the first key of an item", "items:\n  - dpeth: 1\n    depth: 2\nnmae: a\n", false, []string{"line 2: "}},
		{"a later key of an item", "items:\n  - depth: 1\n    dpeth: 2\nnmae: a\n", true, []string{"line 3: ", "line 4: "}},
		{"no YAML", "name: [\ncount: x\n", false, []string{"line "}},
		{"byte order mark", "\ufeffnmae: a\ncount: x\n", true, []string{"line 1: ", "line 2: "}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var into struct {
				Name  string                `yaml:"name"`
				Count int                   `yaml:"count"`
				Inner struct{ Depth int }   `yaml:"inner"`
				Items []struct{ Depth int } `yaml:"items"`
			}
			text := []byte(test.text)
			read, err := DecodeAll(text, &into)
			if read != test.read || (err != nil) != (len(test.want) > 0) {
				t.Fatalf("read %t, error: %v", read, err)
			}
			if string(text) != test.text {
				t.Error("the text was changed")
			}
			if err == nil {
				return
			}
			got := strings.Split(err.Error(), "\n")
			for i, line := range got {
				if len(got) != len(test.want) || !strings.HasPrefix(line, test.want[i]) {
					t.Fatalf("want lines %q, got %q", test.want, got)
				}
			}
		})
	}
}

func FuzzDecodeAll(f *testing.F) {
	for _, seed := range []string{"nmae: a\ncount: x\n", "inner:\n  x: 1\n  - y\n", "- a: 1", "a: {b: 1}\n\tc: 2", "a: |\n  b: 1\nc: 2"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var into struct {
			Name  string
			Count int
		}
		read, err := DecodeAll([]byte(text), &into)
		if _, one := Decode([]byte(text), &into); err == nil && !read {
			t.Fatalf("neither read nor an error; Decode: %v", one)
		}
	})
}
