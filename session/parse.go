package session

import (
	"errors"
	"fmt"
	"io"

	"pillion.dev/internal/document"
)

// ErrSpec marks an invalid specification.
var ErrSpec = errors.New("invalid specification")

const specMax = 256 << 10 // bytes of a specification

// ParseSpec reads one specification in YAML or JSON. Errors, such as unknown keys, state
// the line. The specification is neither completed nor validated.
func ParseSpec(text []byte) (Spec, error) {
	if len(text) > specMax {
		return Spec{}, fmt.Errorf("read session: %w: %d bytes, limit %d", ErrSpec, len(text), specMax)
	}
	var spec Spec
	switch more, err := document.Decode(text, &spec); {
	case errors.Is(err, io.EOF):
		return Spec{}, fmt.Errorf("read session: %w: the document is empty", ErrSpec)
	case err != nil:
		return Spec{}, fmt.Errorf("read session: %w: %w", ErrSpec, err)
	case more:
		return Spec{}, fmt.Errorf("read session: %w: more than one document", ErrSpec)
	}
	return spec, nil
}
