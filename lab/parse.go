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
	_, err := document.Decode(text, spec)
	if err == nil || errors.Is(err, io.EOF) {
		if err = spec.validate(); err == nil {
			err = spec.placeTruths()
		}
		var f *fault
		if errors.As(err, &f) {
			err = &document.Error{Line: lineOf(text, f.path), Cause: err}
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSpec, err)
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
