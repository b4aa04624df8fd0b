// Package document reads YAML that people write: strictly, and without the panics that
// the parser has over some broken documents. It knows nothing of what they say.
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

// ErrSense is a document that the parser fails over, such as a tag with nothing behind
// it where a list belongs.
var ErrSense = errors.New("it is no YAML that makes sense")

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
