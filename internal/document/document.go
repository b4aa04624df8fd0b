// Package document decodes YAML strictly, and recovers from the parser's panics on some
// malformed documents.
package document

import (
	"bytes"
	"encoding"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"pillion.dev/internal/quantity"
)

// ErrSense is a document on which the parser panics, such as a tag without a value in
// place of a list.
var ErrSense = errors.New("malformed YAML")

// Error is a mistake in a document.
type Error struct {
	Line  int // 0 if unknown
	Cause error
}

// Error is the cause in one line, without an excerpt of the document.
func (e *Error) Error() string {
	if e.Line == 0 {
		return e.Cause.Error()
	}
	return fmt.Sprintf("line %d: %v", e.Line, e.Cause)
}

func (e *Error) Unwrap() error { return e.Cause }

// Decode reads one document. Unknown and repeated keys are errors. No document at all is
// io.EOF, any other error an *Error; more reports whether further documents follow.
func Decode(text []byte, into any) (more bool, err error) {
	defer func() {
		if fault := recover(); fault != nil {
			more, err = false, &Error{0, ErrSense}
		}
	}()
	decoder := yaml.NewDecoder(bytes.NewReader(text), yaml.Strict(),
		yaml.CustomUnmarshaler(func(d *time.Duration, text []byte) error { return quantityOf((*quantity.Duration)(d), text) }),
		yaml.CustomUnmarshaler(func(d *quantity.Duration, text []byte) error { return quantityOf(d, text) }),
		yaml.CustomUnmarshaler(func(s *quantity.Size, text []byte) error { return quantityOf(s, text) }))
	if err := decoder.Decode(into); err != nil {
		return false, locate(err, text)
	}
	var next any
	return !errors.Is(decoder.Decode(&next), io.EOF), nil
}

// locate converts an error of the parser.
func locate(err error, text []byte) error {
	var located yaml.Error
	var value *valueError
	switch {
	case errors.Is(err, io.EOF) || errors.As(err, new(*Error)):
		return err
	case errors.As(err, &value):
		return value.locate(text)
	case !errors.As(err, &located):
		return &Error{0, err}
	}
	e := &Error{Cause: errors.New(strings.Join(strings.Fields(located.GetMessage()), " "))}
	if token := located.GetToken(); token != nil && token.Position != nil {
		e.Line = token.Position.Line
	}
	return e
}

// Text is the body of UnmarshalYAML for a type that reads itself from text: its errors
// get a line.
func Text(decode func(any) error, into encoding.TextUnmarshaler) error {
	var text string
	if err := decode(&text); err != nil {
		return err
	}
	err := into.UnmarshalText([]byte(text))
	if err == nil {
		return nil
	}
	var node ast.Node
	if failed := decode(&node); failed != nil {
		return failed
	}
	return &Error{node.GetToken().Position.Line, err}
}

// quantityOf reads a value with the grammar of package quantity.
func quantityOf(into encoding.TextUnmarshaler, node []byte) error {
	var text string
	if yaml.Unmarshal(node, &text) != nil {
		return errors.New("a list or map in place of a duration or size")
	}
	if err := into.UnmarshalText([]byte(text)); err != nil {
		return &valueError{text, err}
	}
	return nil
}

// valueError is a value that is not a quantity. The parser does not locate it.
type valueError struct {
	text  string
	cause error
}

func (e *valueError) Error() string { return e.cause.Error() }

// locate adds the key and the line, if only one key has this value.
func (e *valueError) locate(text []byte) error {
	fault := &Error{Cause: e.cause}
	file, err := parser.ParseBytes(text, 0)
	if err != nil {
		return fault
	}
	var found []*ast.MappingValueNode
	for _, document := range file.Docs {
		ast.Walk(visitor(func(node ast.Node) {
			if pair, ok := node.(*ast.MappingValueNode); ok && pair.Value.GetToken().Value == e.text {
				found = append(found, pair)
			}
		}), document)
	}
	if len(found) == 1 {
		fault.Line, fault.Cause = found[0].Key.GetToken().Position.Line, fmt.Errorf("%s: %w", found[0].Key, e.cause)
	}
	return fault
}

type visitor func(ast.Node)

func (v visitor) Visit(node ast.Node) ast.Visitor {
	v(node)
	return v
}
