package agent

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"pillion.dev/agent/service"
	"pillion.dev/cli/command"
)

// The program under test, and its documentation.
const (
	program  = "pillion-agent"
	document = "../../docs/agent.md"
	unit     = "../../dist/" + program + ".service"
)

func read(t *testing.T, path string) string {
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
		if kind := field.Type.Kind(); (kind == reflect.Map || kind == reflect.Slice) && field.Type.Elem().Kind() == reflect.Struct {
			found = append(found, keys(field.Type.Elem(), before+name+".")...)
		}
	}
	return found
}

// runFlags returns the options of the command that the unit starts.
func runFlags(t *testing.T) []*kong.Flag {
	t.Helper()
	parser, err := newParser(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, node := range parser.Model.Children {
		if node.Name == "run" {
			return node.Flags
		}
	}
	t.Fatal("no command run")
	return nil
}

// TestReference compares the table of keys with the configuration and the options.
func TestReference(t *testing.T) {
	_, table, _ := strings.Cut(read(t, document), "<!-- keys: begin -->")
	table, _, _ = strings.Cut(table, "<!-- keys: end -->")
	var documented []string
	for _, match := range regexp.MustCompile("(?m)^\\| `([a-z_.]+)` \\|").FindAllStringSubmatch(table, -1) {
		documented = append(documented, match[1])
	}
	if want := keys(reflect.TypeFor[service.Config](), ""); !slices.Equal(documented, want) {
		t.Errorf("%s has the keys\n%q, the code\n%q", document, documented, want)
	}
	known := map[string]bool{}
	for _, flag := range runFlags(t) {
		known["`--"+flag.Name+"`"] = true
		for _, name := range flag.Envs {
			known["`"+name+"`"] = true
		}
	}
	for _, name := range regexp.MustCompile("`(--[a-z-]+|PILLION_[A-Z_]+)`").FindAllString(table, -1) {
		if !known[name] {
			t.Errorf("%s names %s, which is not an option", document, name)
		}
	}
}

// TestExampleConfiguration reads the documented file.
func TestExampleConfiguration(t *testing.T) {
	match := regexp.MustCompile("(?s)\n```yaml [a-z]+\n(.*?)```").FindStringSubmatch(read(t, document))
	if match == nil {
		t.Fatalf("%s has no example", document)
	}
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, []byte(match[1]), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := service.ReadConfig(path); err != nil {
		t.Error(err)
	}
}

// TestUnit: systemd accepts the unit, and the program its command lines.
func TestUnit(t *testing.T) {
	text := read(t, unit)
	match := regexp.MustCompile(`(?m)^ExecStart=!?/usr/bin/(\S+) (.*)$`).FindStringSubmatch(text)
	if match == nil || match[1] != program || !strings.Contains(text, "\nType=notify\n") {
		t.Fatalf("%s does not start %s and wait for its notice", unit, program)
	}
	parser, err := newParser(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	words := strings.Fields(strings.NewReplacer("%S", t.TempDir(), "$PILLION_OPTIONS", "--debug").Replace(match[2]))
	if _, err := parser.Parse(words); err != nil {
		t.Errorf("%q: %v", words, err)
	}
	known := []string{"PILLION_OPTIONS"}
	for _, flag := range runFlags(t) {
		known = append(known, flag.Envs...)
	}
	for _, name := range regexp.MustCompile(`PILLION_[A-Z_]+`).FindAllString(text, -1) {
		if !slices.Contains(known, name) {
			t.Errorf("%s names %s, which no option reads", unit, name)
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
	here := filepath.Join(t.TempDir(), program+".service")
	if err := os.WriteFile(here, []byte(strings.Replace(text, "/usr/bin/"+program, self, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if said, err := exec.Command(analyze, "verify", "--man=no", here).CombinedOutput(); err != nil || strings.Contains(string(said), program) {
		t.Error(fmt.Errorf("verify %s: %v: %s", unit, err, said))
	}
}

// TestCheck: an invalid file is rejected.
func TestCheck(t *testing.T) {
	tests := map[string]struct{ text, want string }{
		"good":          {"server: noc\n", ""},
		"unknown key":   {"servr: noc\n", "servr"},
		"no OML":        {"oml: off\n", ""},
		"OML for all":   {"oml: 0.0.0.0:3003\n", "0.0.0.0:3003"},
		"short":         {"host_interval: 1ms\n", "1ms"},
		"no filter":     {"streams: [{name: x, point: host, every: 1m}]\n", "a name and filters are required"},
		"taken name":    {"streams: [{name: oml_x, point: host, every: 1m, filters: [avg(cpu_percent)]}]\n", "oml_x"},
		"broken filter": {"streams: [{name: x, point: host, every: 1m, filters: [avg]}]\n", `stream "x"`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "agent.yaml")
			if err := os.WriteFile(path, []byte(test.text), 0o600); err != nil {
				t.Fatal(err)
			}
			err := (&command.Check[service.Config]{File: path}).Run(service.ReadConfig)
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

// TestRouterReference: the table has exactly the options of the command.
func TestRouterReference(t *testing.T) {
	parser, err := newParser(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(read(t, document), "\n## Routers\n")
	text, _, _ = strings.Cut(text, "\n##")
	known := map[string]bool{}
	for _, node := range parser.Model.Children {
		if node.Name != "router" {
			continue
		}
		for _, flag := range node.Flags {
			name := "--" + flag.Name
			if flag.Negated || flag.Tag.Negatable != "" {
				name = "--no-" + flag.Name
			}
			known[name] = true
			if name != "--help" && !strings.Contains(text, name) {
				t.Errorf("%s does not have %s", document, name)
			}
		}
	}
	for _, name := range regexp.MustCompile("--[a-z]+[a-z-]*").FindAllString(text, -1) {
		if !known[name] {
			t.Errorf("%s names %s, which is not an option", document, name)
		}
	}
}
