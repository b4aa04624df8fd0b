package agent

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"pillion.dev/agent/service"
	"pillion.dev/cli/command"
	"pillion.dev/cli/commandtest"
)

// What describes the program under test.
const (
	document = "../../docs/agent.md"
	unit     = "../../dist/pillion-agent.service"
)

func daemon(t *testing.T) commandtest.Daemon {
	t.Helper()
	parser, err := newParser(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return commandtest.Daemon{
		Name: "pillion-agent", Document: document, Unit: unit, Parser: parser,
		Config: reflect.TypeFor[service.Config](),
		Read: func(path string) error {
			_, err := service.ReadConfig(path)
			return err
		},
	}
}

func TestReference(t *testing.T)            { daemon(t).TestReference(t) }
func TestExampleConfiguration(t *testing.T) { daemon(t).TestExample(t) }
func TestUnit(t *testing.T)                 { daemon(t).TestUnit(t) }

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
	_, text, _ := strings.Cut(commandtest.Text(t, document), "\n## Routers\n")
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
