package session

import (
	"errors"
	"fmt"
	"io"

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
		return Spec{}, fmt.Errorf("read session: %w: %w", ErrSpec, err)
	case more:
		return Spec{}, fmt.Errorf("read session: %w: there is more than one document", ErrSpec)
	}
	return spec, nil
}
