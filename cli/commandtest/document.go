package commandtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// Daemon is a program with a configuration, a systemd unit and a document about both.
type Daemon struct {
	Name, Document, Unit string
	Parser               *kong.Kong
	// Config is the type of the configuration, Read reads one.
	Config reflect.Type
	Read   func(path string) error
}

// Text reads a file.
func Text(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// keys returns the keys of a configuration; nested ones follow a dot.
func keys(of reflect.Type, before string) []string {
	var found []string
	for i := range of.NumField() {
		field := of.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("yaml"), ",")
		if name == "-" {
			continue
		}
		found = append(found, before+name)
		inner := field.Type
		if kind := inner.Kind(); kind == reflect.Map || kind == reflect.Slice {
			inner = inner.Elem()
		}
		if inner.Kind() == reflect.Struct {
			found = append(found, keys(inner, before+name+".")...)
		}
	}
	return found
}

// flags returns the options of the command that the unit starts.
func (d Daemon) flags(t *testing.T) []*kong.Flag {
	t.Helper()
	for _, node := range d.Parser.Model.Children {
		if node.Name == "run" {
			return node.Flags
		}
	}
	t.Fatal("no command run")
	return nil
}

// TestReference compares the document's table of keys with the configuration and the options.
func (d Daemon) TestReference(t *testing.T) {
	t.Helper()
	_, table, _ := strings.Cut(Text(t, d.Document), "<!-- keys: begin -->")
	table, _, _ = strings.Cut(table, "<!-- keys: end -->")
	var documented []string
	for _, match := range regexp.MustCompile("(?m)^\\| `([a-z0-9_.]+)` \\|").FindAllStringSubmatch(table, -1) {
		documented = append(documented, match[1])
	}
	if want := keys(d.Config, ""); !slices.Equal(documented, want) {
		t.Errorf("%s has the keys\n%q, the code\n%q", d.Document, documented, want)
	}
	known := map[string]bool{}
	for _, flag := range d.flags(t) {
		known["`--"+flag.Name+"`"] = true
		for _, name := range flag.Envs {
			known["`"+name+"`"] = true
		}
	}
	for _, name := range regexp.MustCompile("`(--[a-z-]+|PILLION_[A-Z_]+)`").FindAllString(table, -1) {
		if !known[name] {
			t.Errorf("%s names %s, which is not an option", d.Document, name)
		}
	}
}

// TestExample reads the documented configuration.
func (d Daemon) TestExample(t *testing.T) {
	t.Helper()
	match := regexp.MustCompile("(?s)\n```yaml [a-z]+\n(.*?)```").FindStringSubmatch(Text(t, d.Document))
	if match == nil {
		t.Fatalf("%s has no example", d.Document)
	}
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, []byte(match[1]), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := d.Read(path); err != nil {
		t.Error(err)
	}
}

// TestUnit: systemd accepts the unit, and the program its command lines.
func (d Daemon) TestUnit(t *testing.T) {
	t.Helper()
	text := Text(t, d.Unit)
	match := regexp.MustCompile(`(?m)^ExecStart=!?/usr/bin/(\S+) (.*)$`).FindStringSubmatch(text)
	if match == nil || match[1] != d.Name || !strings.Contains(text, "\nType=notify\n") {
		t.Fatalf("%s does not start %s and wait for its notice", d.Unit, d.Name)
	}
	words := strings.Fields(strings.NewReplacer("%S", t.TempDir(), "$PILLION_OPTIONS", "--debug").Replace(match[2]))
	if _, err := d.Parser.Parse(words); err != nil {
		t.Errorf("%q: %v", words, err)
	}
	known := []string{"PILLION_OPTIONS"}
	for _, flag := range d.flags(t) {
		known = append(known, flag.Envs...)
	}
	for _, name := range regexp.MustCompile(`PILLION_[A-Z_]+`).FindAllString(text, -1) {
		if !slices.Contains(known, name) {
			t.Errorf("%s names %s, which no option reads", d.Unit, name)
		}
	}
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		return // a system without systemd
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	here := filepath.Join(t.TempDir(), d.Name+".service")
	if err := os.WriteFile(here, []byte(strings.Replace(text, "/usr/bin/"+d.Name, self, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if said, err := exec.Command(analyze, "verify", "--man=no", here).CombinedOutput(); err != nil || strings.Contains(string(said), d.Name) {
		t.Errorf("verify %s: %v: %s", d.Unit, err, said)
	}
}
