// Package document decodes YAML strictly, and recovers from the parser's panics on some
// malformed documents.
package document

import (
	"bytes"
	"encoding"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

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
	text = withoutMark(text)
	if err := checkIntegers(text); err != nil {
		return false, err
	}
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

// withoutMark removes a byte order mark, which the parser takes for a part of the first key
// (YAML 1.2, 5.2).
func withoutMark(text []byte) []byte { return bytes.TrimPrefix(text, []byte("\ufeff")) }

// leadingZero is a decimal integer in YAML 1.2 and octal in YAML 1.1, as which the parser takes it.
var leadingZero = regexp.MustCompile(`^[-+]?0[0-9_]+$`)

// checkIntegers rejects integers that would be read as another number or another text.
func checkIntegers(text []byte) error {
	for _, t := range lexer.Tokenize(string(text)) {
		if t.Type == token.OctetIntegerType && leadingZero.MatchString(t.Value) {
			return &Error{t.Position.Line, fmt.Errorf("%.40s has a leading zero: omit it, or put text in quotes", t.Value)}
		}
	}
	return nil
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
	e := &Error{Cause: errors.New(explain(err, located))}
	if token := located.GetToken(); token != nil && token.Position != nil {
		e.Line = token.Position.Line
	}
	return e
}

// explain says what is wrong in the words of the document, not of Go.
func explain(err error, located yaml.Error) string {
	var wrong *yaml.TypeError
	var large *yaml.OverflowError
	var node *yaml.UnexpectedNodeTypeError
	switch {
	case errors.As(err, &wrong) && wrong.Token != nil:
		return fmt.Sprintf("%.70q is not %s", wrong.Token.Value, kindOf(wrong.DstType))
	case errors.As(err, &node):
		return nodeNames.Replace(fmt.Sprintf("a %s in place of a %s", node.Actual.YAMLName(), node.Expected.YAMLName()))
	case errors.As(err, &large):
		return fmt.Sprintf("%.70s is out of range", large.SrcNum)
	}
	message := strings.ReplaceAll(located.GetMessage(), "character '\t'", "a tab: indent with spaces; a tab is a character")
	return strings.Join(strings.Fields(message), " ")
}

// nodeNames are the words for YAML's nodes that people use.
var nodeNames = strings.NewReplacer("sequence", "list", "mapping", "map", "a int", "a number", "a float", "a number")

func kindOf(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Pointer:
		return kindOf(t.Elem())
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "a whole number"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.Map, reflect.Struct:
		return "a map"
	}
	return "text"
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
