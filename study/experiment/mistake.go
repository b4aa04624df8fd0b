package experiment

import (
	"errors"
	"fmt"
	"strings"

	"pillion.dev/internal/document"
)

// Mistake is what is wrong with a field of an experiment's file.
type Mistake struct {
	// Field is a path such as treatments.mark.both.session or targets[0].where.
	Field string
	Cause error
}

// Mistakes joins mistakes in the text of a file, each with its line, to an error that wraps
// ErrSpec; nil without any.
func Mistakes(text []byte, list []Mistake) error {
	if len(list) == 0 {
		return nil
	}
	fields := make([]string, len(list))
	for i, m := range list {
		fields[i] = m.Field
	}
	lines := document.Lines(text, fields)
	all := []error{}
	for _, m := range list {
		field := m.Field
		for lines[field] == 0 && strings.Contains(field, ".") { // the field is absent: use its parent's line
			field = field[:strings.LastIndex(field, ".")]
			lines[field] = document.Lines(text, []string{field})[field]
		}
		cause := &document.Error{Line: lines[field], Cause: fmt.Errorf("%s: %w", m.Field, m.Cause)}
		all = append(all, fmt.Errorf("%w: %w", ErrSpec, cause))
	}
	return errors.Join(all...)
}
