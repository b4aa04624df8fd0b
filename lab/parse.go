package lab

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/goccy/go-yaml/parser"
	"pillion.dev/internal/document"
)

// ErrSpec marks errors that are mistakes in a lab file.
var ErrSpec = errors.New("bad lab file")

// specError is a mistake in a lab file, on a line if that is known.
type specError struct {
	line  int
	cause string
}

func (e *specError) Error() string {
	if e.line == 0 {
		return e.cause
	}
	return fmt.Sprintf("line %d: %s", e.line, e.cause)
}

func (e *specError) Is(target error) bool { return target == ErrSpec }

// ReadSpec reads a lab file. Truth files become absolute paths.
func ReadSpec(path string) (*Spec, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read lab file: %w", err)
	}
	spec, err := ParseSpec(text)
	if err != nil {
		return nil, fmt.Errorf("read lab file %s: %w", path, err)
	}
	return spec, nil
}

// ParseSpec parses and validates YAML and fills in the defaults. Unknown and
// repeated keys are errors. Errors are one line with the line number in it.
func ParseSpec(text []byte) (*Spec, error) {
	spec := new(Spec)
	if _, err := document.Decode(text, spec); err != nil && !errors.Is(err, io.EOF) {
		return nil, describe(text, err)
	}
	if err := spec.validate(); err != nil {
		return nil, &specError{lineOf(text, pathOf(err)), err.Error()}
	}
	if err := spec.placeTruths(); err != nil {
		return nil, &specError{lineOf(text, pathOf(err)), err.Error()}
	}
	return spec, nil
}

// placeTruths makes the truth files absolute, because emulators run elsewhere, and
// checks that they can be written.
func (s *Spec) placeTruths() error {
	taken := map[string]bool{}
	for i, l := range s.Links {
		if l.Emulate == nil || l.Emulate.Truth == "" {
			continue
		}
		where := fmt.Sprintf("$.links[%d].emulate.truth", i)
		absolute, err := filepath.Abs(l.Emulate.Truth)
		if err != nil {
			return faultf(where, "truth %q: %v", l.Emulate.Truth, err)
		}
		if info, err := os.Stat(filepath.Dir(absolute)); err != nil || !info.IsDir() {
			return faultf(where, "truth %q: no such folder", l.Emulate.Truth)
		}
		if taken[absolute] {
			return faultf(where, "truth %q: already taken by another link", l.Emulate.Truth)
		}
		taken[absolute], l.Emulate.Truth = true, absolute
	}
	return nil
}

// describe turns an error of the YAML package into one line.
func describe(text []byte, err error) error {
	var located yaml.Error
	if !errors.As(err, &located) {
		if bad := badScalar(text); bad != nil {
			return bad
		}
		return &specError{0, firstLine(err.Error())}
	}
	line := 0
	if token := located.GetToken(); token != nil && token.Position != nil {
		line = token.Position.Line
	}
	return &specError{line, firstLine(located.GetMessage())}
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return line
}

// lineOf finds the line of a YAML path, or of the nearest node above it that
// exists; 0 if there is none.
func lineOf(text []byte, path string) int {
	file, err := parser.ParseBytes(text, 0)
	if err != nil {
		return 0
	}
	for path != "" && path != "$" {
		place, err := yaml.PathString(path)
		if err != nil {
			return 0
		}
		if node, err := place.FilterFile(file); err == nil && node.GetToken() != nil {
			return node.GetToken().Position.Line
		}
		path = path[:max(0, strings.LastIndexAny(path, ".["))]
	}
	return 0
}
