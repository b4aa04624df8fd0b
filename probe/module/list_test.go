package module

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pillion.dev/measure/module"
)

var (
	update = flag.Bool("update", false, "write all.h")
	folder = flag.String("headers", ".", "folder of the headers")
)

// headers are the modules in the folder.
func headers(t *testing.T) []Header {
	t.Helper()
	files, err := os.ReadDir(*folder)
	if err != nil {
		t.Fatal(err)
	}
	var all []Header
	for _, file := range files {
		if !IsModule(file.Name()) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(*folder, file.Name()))
		if err != nil {
			t.Fatal(err)
		}
		h, err := Parse(file.Name(), string(text))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, h)
	}
	return all
}

// TestList compares all.h with the headers in this folder; -update writes it.
func TestList(t *testing.T) {
	want := List(headers(t))
	if *update {
		if err := os.WriteFile(filepath.Join(*folder, ListName), []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(filepath.Join(*folder, ListName)); err != nil || string(got) != want {
		t.Errorf("%s does not list the headers in this folder (%v): run go generate ./probe/module", ListName, err)
	}
}

// TestHeadersAreDescribed: each header has a descriptor with the same option, and each
// descriptor of an option has a header.
func TestHeadersAreDescribed(t *testing.T) {
	declared := map[string]Header{}
	for _, h := range headers(t) {
		name := strings.ReplaceAll(h.Name, "_", "-")
		declared[name] = h
		if d := module.Find(name); d == nil || d.ID != h.ID || d.Bytes != h.Bytes {
			t.Errorf("%s.h declares option %#x of %d bytes, measure/module describes %+v", h.Name, h.ID, h.Bytes, d)
		}
	}
	for _, d := range module.All() {
		if _, found := declared[d.Name]; !found && !d.Built() {
			t.Errorf("measure/module describes %s, but there is no %s.h", d.Name, d.Stream())
		}
	}
}

func TestParse(t *testing.T) {
	for _, row := range []struct{ name, file, text, want string }{
		{"good", "a_b.h", "x\nMODULE(a_b, 0x41, 4)\n", ""},
		{"decimal id", "a_b.h", "MODULE(a_b, 65, 4) /* x */\n", ""},
		{"none", "a_b.h", "/* MODULE(a_b, 0x41, 4) */", "0 lines"},
		{"two", "a_b.h", "MODULE(a_b, 0x41, 4)\nMODULE(c, 0x42, 4)\n", "2 lines"},
		{"of another file", "c.h", "MODULE(a_b, 0x41, 4)\n", "it declares a_b"},
		{"no id", "a_b.h", "MODULE(a_b, SOME, 4)\n", "id:"},
		{"no bytes", "a_b.h", "MODULE(a_b, 0x41, some)\n", "bytes:"},
	} {
		t.Run(row.name, func(t *testing.T) {
			h, err := Parse(row.file, row.text)
			if row.want == "" {
				if err != nil || h != (Header{"a_b", 0x41, 4}) {
					t.Errorf("got %+v, %v", h, err)
				}
			} else if err == nil || !strings.Contains(err.Error(), row.want) {
				t.Errorf("got %v, want %q", err, row.want)
			}
		})
	}
}
