package lab

import (
	"encoding"
	"fmt"
	"net/netip"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"pillion.dev/lab/emulator"
)

// scalars are the types of values that parse themselves, by key. The decoder loses
// the line of their errors, so badScalar finds it.
var scalars = map[string]func() encoding.TextUnmarshaler{
	"delay":       func() encoding.TextUnmarshaler { return new(emulator.Duration) },
	"jitter":      func() encoding.TextUnmarshaler { return new(emulator.Duration) },
	"reorder_gap": func() encoding.TextUnmarshaler { return new(emulator.Duration) },
	"loss":        func() encoding.TextUnmarshaler { return new(emulator.Fraction) },
	"duplicate":   func() encoding.TextUnmarshaler { return new(emulator.Fraction) },
	"reorder":     func() encoding.TextUnmarshaler { return new(emulator.Fraction) },
	"rate":        func() encoding.TextUnmarshaler { return new(emulator.Rate) },
	"queue":       func() encoding.TextUnmarshaler { return new(emulator.Queue) },
	"addresses":   func() encoding.TextUnmarshaler { return new(prefix) },
}

// prefix is an address whose error says what is missing.
type prefix netip.Prefix

func (p *prefix) UnmarshalText(text []byte) error {
	if err := (*netip.Prefix)(p).UnmarshalText(text); err != nil {
		return fmt.Errorf("parse address %q: not an address with prefix length such as 192.0.2.1/24", text)
	}
	return nil
}

// badScalar returns the first value that cannot be parsed, with its line, or nil.
func badScalar(text []byte) error {
	file, err := parser.ParseBytes(text, 0)
	if err != nil {
		return nil
	}
	var found error
	for _, document := range file.Docs {
		if document.Body != nil {
			ast.Walk(scalarVisitor{nil, &found}, document.Body)
		}
	}
	return found
}

// scalarVisitor tries the values below a key that says how.
type scalarVisitor struct {
	fresh func() encoding.TextUnmarshaler // nil above such a key
	found *error
}

// Visit implements ast.Visitor.
func (v scalarVisitor) Visit(node ast.Node) ast.Visitor {
	switch n := node.(type) {
	case *ast.MappingValueNode:
		if fresh, ok := scalars[n.Key.GetToken().Value]; ok {
			ast.Walk(scalarVisitor{fresh, v.found}, n.Value)
			return nil
		}
		if v.fresh != nil { // a host: its name is no value
			ast.Walk(v, n.Value)
			return nil
		}
	case ast.ScalarNode:
		if v.fresh == nil || *v.found != nil {
			return nil
		}
		if err := v.fresh().UnmarshalText([]byte(n.GetToken().Value)); err != nil {
			*v.found = &specError{n.GetToken().Position.Line, err.Error()}
		}
	}
	return v
}
