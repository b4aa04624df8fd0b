// Package document decodes YAML strictly, and recovers from the parser's panics on some
// malformed documents.
package document

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/goccy/go-yaml"

	"pillion.dev/internal/quantity"
)

// ErrSense is a document on which the parser panics, such as a tag without a value in
// place of a list.
var ErrSense = errors.New("malformed YAML")

// Decode reads one document. Unknown and repeated keys are errors; those of the parser
// are yaml.Error, with the place. No document at all is io.EOF; whether more follow is
// told.
func Decode(text []byte, into any) (more bool, err error) {
	defer func() {
		if fault := recover(); fault != nil {
			more, err = false, ErrSense
		}
	}()
	decoder := yaml.NewDecoder(bytes.NewReader(text), yaml.Strict(), yaml.CustomUnmarshaler(durationOf))
	if err := decoder.Decode(into); err != nil {
		return false, err
	}
	var next any
	return !errors.Is(decoder.Decode(&next), io.EOF), nil
}

// durationOf reads a time.Duration with the grammar of package quantity.
func durationOf(d *time.Duration, text []byte) (err error) {
	*d, err = quantity.ParseDuration(strings.Trim(strings.TrimSpace(string(text)), `'"`))
	return err
}
