package session

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/goccy/go-yaml"
)

// ErrSpec marks text that is no specification.
var ErrSpec = errors.New("not understood")

const specMax = 256 << 10 // bytes of a specification

// ParseSpec reads one specification in YAML, which JSON is too. Keys that do not
// exist are refused with their line. The specification is neither completed nor
// validated.
func ParseSpec(text []byte) (Spec, error) {
	if len(text) > specMax {
		return Spec{}, fmt.Errorf("read session: %w: %d bytes, at most %d", ErrSpec, len(text), specMax)
	}
	var spec Spec
	if err := decode(text, &spec); err != nil {
		return Spec{}, fmt.Errorf("read session: %w: %w", ErrSpec, err)
	}
	return spec, nil
}

// decode reads the one document. The parser panics over some broken ones, such as
// a tag with nothing behind it where a list belongs.
func decode(text []byte, spec *Spec) (err error) {
	defer func() {
		if fault := recover(); fault != nil {
			err = errors.New("it is no YAML that makes sense")
		}
	}()
	decoder := yaml.NewDecoder(bytes.NewReader(text), yaml.Strict())
	switch err := decoder.Decode(spec); {
	case errors.Is(err, io.EOF):
		return errors.New("it is empty")
	case err != nil:
		return errors.New(explain(err))
	}
	var more any
	if err := decoder.Decode(&more); !errors.Is(err, io.EOF) {
		return errors.New("there is more than one document")
	}
	return nil
}

// explain is the parser's error in one line, with the line in the text.
func explain(err error) string {
	message := err.Error()
	var located yaml.Error
	if errors.As(err, &located) {
		message = located.GetMessage()
		if token := located.GetToken(); token != nil && token.Position != nil {
			message = fmt.Sprintf("line %d: %s", token.Position.Line, message)
		}
	}
	return strings.Join(strings.Fields(message), " ")
}
