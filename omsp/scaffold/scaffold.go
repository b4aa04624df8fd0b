// Package scaffold turns the description of an application's measurement points
// into a C header, APP_oml.h, with one function for each point: so the compiler
// checks each sample that is injected. It does for libpillion what oml2-scaffold
// does for OML.
package scaffold

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"

	"pillion.dev/internal/document"
	"pillion.dev/omsp"
)

// ErrDescription is a description that cannot be used.
var ErrDescription = errors.New("bad description")

// App is an application with its measurement points.
type App struct {
	App     word    `yaml:"app"`
	Version word    `yaml:"version"`
	Doc     string  `yaml:"doc"`
	Points  []point `yaml:"points"`
}

// point is a measurement point.
type point struct {
	Name   word    `yaml:"name"`
	Doc    string  `yaml:"doc"`
	Fields []field `yaml:"fields"`
}

// field of a point.
type field struct {
	Name word   `yaml:"name"`
	Type word   `yaml:"type"`
	Doc  string `yaml:"doc"`

	kind omsp.Type
}

// word is a text that knows its line.
type word struct {
	text string
	line int
}

// UnmarshalYAML takes a text or a number as it is written.
func (w *word) UnmarshalYAML(node ast.Node) error {
	w.line = node.GetToken().Position.Line
	switch n := node.(type) {
	case *ast.StringNode:
		w.text = n.Value
	case *ast.SequenceNode: // [double] is a type, and a list with one word
		w.text = strings.ReplaceAll(n.String(), " ", "")
	case *ast.IntegerNode, *ast.FloatNode:
		w.text = node.GetToken().Value
	default:
		return fault(w.line, "a word is expected, not %s", strings.ToLower(node.Type().String()))
	}
	return nil
}

func fault(line int, format string, values ...any) error {
	return fmt.Errorf("%w: line %d: %s", ErrDescription, line, fmt.Sprintf(format, values...))
}

// most is how many points an application and fields a point may have: a packet
// names both in one byte.
const most = 255

// Parse reads a description. Errors name the line.
func Parse(text []byte) (*App, error) {
	var a App
	if _, err := document.Decode(text, &a); err != nil && !errors.Is(err, io.EOF) {
		return nil, explain(err)
	}
	if a.App.text == "" || !omsp.ValidName(a.App.text) {
		return nil, fault(max(a.App.line, 1), "app %q is not a name of letters, digits and _", a.App.text)
	}
	if len(a.Points) == 0 || len(a.Points) >= most {
		return nil, fault(a.App.line, "%d points: use 1 to %d", len(a.Points), most-1)
	}
	names := map[string]bool{}
	for i := range a.Points {
		p := &a.Points[i]
		if err := checkName("point", p.Name, a.App.line, names); err != nil {
			return nil, err
		}
		if err := p.check(); err != nil {
			return nil, err
		}
	}
	return &a, nil
}

func (p *point) check() error {
	if len(p.Fields) == 0 || len(p.Fields) > most {
		return fault(p.Name.line, "point %s has %d fields: use 1 to %d", p.Name.text, len(p.Fields), most)
	}
	names := map[string]bool{}
	for i := range p.Fields {
		f := &p.Fields[i]
		if err := checkName("field", f.Name, p.Name.line, names); err != nil {
			return err
		}
		var err error
		if f.kind, err = parseType(f.Type.text); err != nil {
			return fault(max(f.Type.line, f.Name.line), "field %s: %v", f.Name.text, err)
		}
	}
	arguments := map[string]bool{}
	for i := range p.Fields {
		for _, name := range p.Fields[i].arguments() {
			if arguments[name] {
				return fault(p.Fields[i].Name.line, "field %s: two arguments in C would be called %s", p.Fields[i].Name.text, name)
			}
			arguments[name] = true
		}
	}
	return nil
}

// checkName refuses what is no name, or another's.
func checkName(what string, name word, above int, others map[string]bool) error {
	line := name.line
	if line == 0 {
		line = above
	}
	switch {
	case name.text == "":
		return fault(line, "a %s has no name", what)
	case !omsp.ValidName(name.text):
		return fault(line, "%s %q is not a name of letters, digits and _", what, name.text)
	case others[name.text]:
		return fault(line, "two %ss are called %s", what, name.text)
	}
	others[name.text] = true
	return nil
}

// parseType reads a type, also as oml2-scaffold calls it.
func parseType(name string) (omsp.Type, error) {
	switch {
	case strings.HasPrefix(name, "vector_"):
		name = "[" + strings.TrimPrefix(name, "vector_") + "]"
	case name == "boolean":
		name = "bool"
	case name == "int":
		name = "int32"
	}
	return omsp.ParseType(name)
}

// explain says in one line what the YAML is not.
func explain(err error) error {
	if errors.Is(err, ErrDescription) {
		return err
	}
	var located yaml.Error
	if !errors.As(err, &located) {
		return fmt.Errorf("%w: not YAML: %w", ErrDescription, err)
	}
	message := strings.Join(strings.Fields(located.GetMessage()), " ")
	if token := located.GetToken(); token != nil && token.Position != nil {
		return fault(token.Position.Line, "%s", message)
	}
	return fmt.Errorf("%w: %s", ErrDescription, message)
}
