package session

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/goccy/go-yaml"

	"pillion.dev/internal/document"
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
	switch more, err := document.Decode(text, &spec); {
	case errors.Is(err, io.EOF):
		return Spec{}, fmt.Errorf("read session: %w: it is empty", ErrSpec)
	case err != nil:
		return Spec{}, fmt.Errorf("read session: %w: %s", ErrSpec, explain(err))
	case more:
		return Spec{}, fmt.Errorf("read session: %w: there is more than one document", ErrSpec)
	}
	return spec, nil
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
