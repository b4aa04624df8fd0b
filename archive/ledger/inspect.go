package ledger

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"pillion.dev/archive"
	"pillion.dev/measure"
)

// inspect rejects what a database would refuse or misread.
func inspect(b *archive.Batch) (err error) {
	defer func() {
		if r := recover(); r != nil { // arrow panics on some malformed arrays
			err = fmt.Errorf("inspect batch of %q: %w: %v", b.Stream, measure.ErrBatch, r)
		}
	}()
	if b.Schema == nil || b.Record == nil || b.Schema.Name != b.Stream {
		return fmt.Errorf("inspect batch of %q: %w: its schema belongs to another stream", b.Stream, measure.ErrBatch)
	}
	if err := check(b.Schema); err != nil {
		return err
	}
	if !b.Record.Schema().Equal(b.Schema.Arrow()) && !sameTypes(b.Record.Schema(), b.Schema) {
		return fmt.Errorf("inspect batch of %q: %w: its columns do not match its schema", b.Stream, measure.ErrBatch)
	}
	for i, f := range b.Schema.Fields {
		column := b.Record.Column(i)
		if i == 0 && column.NullN() > 0 {
			return fmt.Errorf("inspect batch of %q: %w: a time is null", b.Stream, measure.ErrBatch)
		}
		if err := inspectColumn(f.Type, column); err != nil {
			return fmt.Errorf("inspect batch of %q: %w: column %q: %w", b.Stream, measure.ErrBatch, f.Name, err)
		}
	}
	return nil
}

func sameTypes(got *arrow.Schema, want *measure.Schema) bool {
	if got.NumFields() != len(want.Fields) {
		return false
	}
	for i, f := range got.Fields() {
		if f.Name != want.Fields[i].Name || !arrow.TypeEqual(f.Type, measure.ArrowType(want.Fields[i].Type)) {
			return false
		}
	}
	return true
}

var (
	errOffsets = errors.New("offsets out of range")
	errText    = errors.New("text is not UTF-8")
	errTime    = errors.New("time is infinite")
)

func inspectColumn(t measure.Type, column arrow.Array) error {
	n := column.Len()
	if n == 0 {
		return nil
	}
	if column.NullN() > 0 {
		_ = column.NullBitmapBytes()[(column.Data().Offset()+n-1)/8] // panics when it is too short
	}
	switch c := column.(type) {
	case *array.String:
		return inspectText(c.ValueOffsets(), measure.TextOf(c), n, true)
	case *array.Binary:
		return inspectText(c.ValueOffsets(), measure.TextOf(c), n, false)
	case *array.Timestamp:
		for i, v := range c.Values() {
			if (v == math.MaxInt64 || v <= -math.MaxInt64) && c.IsValid(i) {
				return errTime
			}
		}
	case *array.List:
		last := int64(0)
		for i := range n {
			start, end := c.ValueOffsets(i)
			if start < last || end < start || end > int64(c.ListValues().Len()) {
				return errOffsets
			}
			last = end
		}
		return inspectColumn(measure.Int64, c.ListValues())
	case *array.Boolean:
		if n > 0 {
			_ = c.Value(n - 1)
		}
	default:
		_ = column.Data().Buffers()[1].Bytes()[:(column.Data().Offset()+n)*t.Width()]
	}
	return nil
}

// inspectText checks the whole text at once: it is UTF-8 throughout, and no
// string starts inside a character.
func inspectText(offsets []int32, text []byte, n int, isText bool) error {
	if n == 0 {
		return nil
	}
	if len(offsets) <= n || offsets[0] < 0 || int(offsets[n]) > len(text) || !slices.IsSorted(offsets[:n+1]) {
		return errOffsets
	}
	if !isText {
		return nil
	}
	if !utf8.Valid(text[offsets[0]:offsets[n]]) {
		return errText
	}
	for _, o := range offsets[:n] {
		if o < offsets[n] && !utf8.RuneStart(text[o]) {
			return errText
		}
	}
	return nil
}
