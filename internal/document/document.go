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
	decoder := yaml.NewDecoder(bytes.NewReader(text), yaml.Strict(), yaml.CustomUnmarshaler(durationOf))
	if err := decoder.Decode(into); err != nil {
		return false, locate(err)
	}
	var next any
	return !errors.Is(decoder.Decode(&next), io.EOF), nil
}

// locate converts an error of the parser.
func locate(err error) error {
	var located yaml.Error
	switch {
	case errors.Is(err, io.EOF) || errors.As(err, new(*Error)):
		return err
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

// durationOf reads a time.Duration with the grammar of package quantity.
func durationOf(d *time.Duration, text []byte) (err error) {
	*d, err = quantity.ParseDuration(strings.Trim(strings.TrimSpace(string(text)), `'"`))
	return err
}
