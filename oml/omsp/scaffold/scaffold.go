// Package scaffold generates a C header, APP_oml.h, from the description of an
// application's measurement points, with one function per point: the compiler then
// checks each injected sample. It is libpillion's counterpart of oml2-scaffold.
package scaffold

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"pillion.dev/internal/document"
	"pillion.dev/oml/omsp"
)

// ErrDescription marks an invalid description.
var ErrDescription = errors.New("invalid description")

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

// word is a text with its line.
type word struct {
	text string
	line int
}

// String is the text.
func (w word) String() string { return w.text }

// UnmarshalYAML accepts a text, or a number as written.
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
		return fault(w.line, "want a word, not %s", strings.ToLower(node.Type().String()))
	}
	return nil
}

func fault(line int, format string, values ...any) error {
	return &document.Error{Line: line, Cause: fmt.Errorf(format, values...)}
}

// most limits the points of an application and the fields of a point: a packet
// identifies each by one byte.
const most = 255

// Parse parses a description. Errors include the line.
func Parse(text []byte) (*App, error) {
	var a App
	_, err := document.Decode(text, &a)
	if err == nil || errors.Is(err, io.EOF) {
		err = a.check()
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDescription, err)
	}
	return &a, nil
}

func (a *App) check() error {
	if a.App.text == "" || !omsp.ValidName(a.App.text) {
		return fault(max(a.App.line, 1), "invalid app name %q: use letters, digits and _", a.App.text)
	}
	if len(a.Points) == 0 || len(a.Points) >= most {
		return fault(a.App.line, "%d points: use 1 to %d", len(a.Points), most-1)
	}
	names := map[string]bool{}
	for i := range a.Points {
		p := &a.Points[i]
		if err := checkName("point", p.Name, a.App.line, names); err != nil {
			return err
		}
		if err := p.check(); err != nil {
			return err
		}
	}
	return nil
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
				return fault(p.Fields[i].Name.line, "field %s: duplicate C argument %s", p.Fields[i].Name.text, name)
			}
			arguments[name] = true
		}
	}
	return nil
}

// checkName checks that a name is valid and unique.
func checkName(what string, name word, above int, others map[string]bool) error {
	line := name.line
	if line == 0 {
		line = above
	}
	switch {
	case name.text == "":
		return fault(line, "%s without a name", what)
	case !omsp.ValidName(name.text):
		return fault(line, "invalid %s name %q: use letters, digits and _", what, name.text)
	case others[name.text]:
		return fault(line, "duplicate %s %s", what, name.text)
	}
	others[name.text] = true
	return nil
}

// parseType parses a type, including the names of oml2-scaffold.
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
