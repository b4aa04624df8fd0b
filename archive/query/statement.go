package query

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"pillion.dev/archive"
)

var (
	ornament  = regexp.MustCompile(`^(\s+|\(|--[^\n]*(\n|$)|(?s:/\*.*?\*/))+`)
	firstWord = regexp.MustCompile(`^[A-Za-z]+`)
)

// Bare is a statement without the spaces, comments and parentheses before its first word.
func Bare(sql string) string { return ornament.ReplaceAllString(sql, "") }

// CheckStatement returns an error unless a user's statement, of at most so many bytes, begins with one of some
// words. That alone does not keep it from writing.
func CheckStatement(sql string, words []string, most int) error {
	word := strings.ToUpper(firstWord.FindString(Bare(sql)))
	switch {
	case !slices.Contains(words, word):
		return fmt.Errorf("%w: only read-only statements are allowed (%s), not %q", archive.ErrQuery, strings.Join(words, ", "), word)
	case strings.ContainsRune(sql, 0):
		return fmt.Errorf("%w: it contains a NUL byte", archive.ErrQuery)
	case len(sql) > most:
		return fmt.Errorf("%w: the statement has %d bytes, limit %d", archive.ErrQuery, len(sql), most)
	}
	return nil
}

// ErrEnough ends a statement at its limit of rows.
var ErrEnough = errors.New("enough rows")

// Limited passes on at most most rows, and then returns ErrEnough; 0 means all.
func Limited(most int64, rows func(arrow.RecordBatch) error) func(arrow.RecordBatch) error {
	if most <= 0 {
		return rows
	}
	return func(r arrow.RecordBatch) error {
		if r.NumRows() < most {
			most -= r.NumRows()
			return rows(r)
		}
		head := r.NewSlice(0, most)
		defer head.Release()
		if err := rows(head); err != nil {
			return err
		}
		return ErrEnough
	}
}
