package measure

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// widths are the bits of one value of types with a fixed width.
var widths = map[Type]int{
	Bool: 1, Int32: 32, Uint32: 32, Int64: 64, Uint64: 64, Float64: 64, Time: 64,
}

// loader builds the columns of a payload's body, in the order of its nodes and buffers.
type loader struct {
	*payload
	body    *memory.Buffer
	memory  memory.Allocator
	nodes   []node
	buffers []span
}

// load checks the columns and copies the body once, into Arrow's buffers.
func (p *payload) load(allocator memory.Allocator) (arrow.RecordBatch, error) {
	body := memory.NewResizableBuffer(allocator)
	defer body.Release()
	body.Resize(len(p.body))
	copy(body.Bytes(), p.body)
	l := &loader{p, body, allocator, p.nodes, p.buffers}
	columns := make([]arrow.Array, 0, len(p.schema.Fields))
	defer func() {
		for _, c := range columns {
			c.Release()
		}
	}()
	for i, f := range p.schema.Fields {
		data, err := l.column(f.Type)
		if err == nil && data.Len() != p.rows {
			err = fmt.Errorf("%d values for %d rows", data.Len(), p.rows)
		}
		if err == nil && i == 0 && data.NullN() != 0 {
			err = fmt.Errorf("%d nulls", data.NullN())
		}
		if data != nil {
			defer data.Release()
		}
		if err != nil {
			return nil, fmt.Errorf("column %q: %w", f.Name, err)
		}
		columns = append(columns, array.MakeFromData(data))
	}
	if len(l.nodes) != 0 || len(l.buffers) != 0 {
		return nil, fmt.Errorf("%d columns and %d buffers too many", len(l.nodes), len(l.buffers))
	}
	return array.NewRecordBatch(p.schema.Arrow(), columns, int64(p.rows)), nil
}

var errMissing = errors.New("its description is missing")

// slice is the next buffer, which must have at least need bytes. If no byte is needed it
// may be missing in the message, but never is in the array.
func (l *loader) slice(need int) (*memory.Buffer, error) {
	if len(l.buffers) == 0 {
		return nil, errMissing
	}
	b := l.buffers[0]
	l.buffers = l.buffers[1:]
	if b.length < need {
		return nil, fmt.Errorf("buffer of %d bytes, want %d", b.length, need)
	}
	return memory.SliceBuffer(l.body, b.offset, b.length), nil
}

func (l *loader) column(t Type) (arrow.ArrayData, error) {
	if len(l.nodes) == 0 {
		return nil, errMissing
	}
	n := l.nodes[0]
	l.nodes = l.nodes[1:]
	valid, err := l.validity(n)
	if err != nil {
		return nil, err
	}
	buffers := []*memory.Buffer{valid}
	defer func() { memory.ReleaseBuffers(buffers) }()
	if width, fixed := widths[t]; fixed {
		values, err := l.slice((n.length*width + 7) / 8)
		if err != nil {
			return nil, err
		}
		buffers = append(buffers, values)
		return array.NewData(arrowTypes[t], n.length, buffers, nil, n.nulls, 0), nil
	}
	offsets, err := l.offsets(n.length)
	if err != nil {
		return nil, err
	}
	buffers = append(buffers, offsets)
	if err := checkOffsets(offsets.Bytes(), n.length); err != nil {
		return nil, err
	}
	last := offsetAt(offsets.Bytes(), n.length)
	if t == Int64List || t == Uint64List {
		return l.list(t, n, buffers, last)
	}
	values, err := l.slice(last)
	if err != nil {
		return nil, err
	}
	buffers = append(buffers, values)
	if t == String {
		if err := checkStrings(valid, offsets.Bytes(), values.Bytes(), n.length); err != nil {
			return nil, err
		}
	}
	return array.NewData(arrowTypes[t], n.length, buffers, nil, n.nulls, 0), nil
}

// list reads the values of a list column, none of which may be null.
func (l *loader) list(t Type, n node, buffers []*memory.Buffer, last int) (arrow.ArrayData, error) {
	values, err := l.column(map[Type]Type{Int64List: Int64, Uint64List: Uint64}[t])
	if err != nil {
		return nil, fmt.Errorf("list: %w", err)
	}
	defer values.Release()
	if values.Len() < last || values.NullN() != 0 {
		return nil, fmt.Errorf("list: %d values, %d of them null, want %d", values.Len(), values.NullN(), last)
	}
	return array.NewData(arrowTypes[t], n.length, buffers, []arrow.ArrayData{values}, n.nulls, 0), nil
}

// validity is the bitmap of the values that are not null; nil if none is null.
func (l *loader) validity(n node) (*memory.Buffer, error) {
	if n.nulls == 0 {
		if len(l.buffers) == 0 {
			return nil, errMissing
		}
		l.buffers = l.buffers[1:]
		return nil, nil
	}
	valid, err := l.slice((n.length + 7) / 8)
	if err != nil {
		return nil, fmt.Errorf("validity: %w", err)
	}
	if set := countBits(valid.Bytes(), n.length); set != n.length-n.nulls {
		valid.Release()
		return nil, fmt.Errorf("validity: %d of %d are set with %d nulls", set, n.length, n.nulls)
	}
	return valid, nil
}

// offsets of strings or lists: one more than values. They may be missing if there are no
// values.
func (l *loader) offsets(length int) (*memory.Buffer, error) {
	need := 4 * (length + 1)
	if length == 0 && len(l.buffers) > 0 && l.buffers[0].length < need {
		l.buffers = l.buffers[1:]
		zero := memory.NewResizableBuffer(l.memory)
		zero.Resize(need)
		clear(zero.Bytes())
		return zero, nil
	}
	offsets, err := l.slice(need)
	if err != nil {
		return nil, fmt.Errorf("offsets: %w", err)
	}
	return offsets, nil
}

func offsetAt(offsets []byte, i int) int {
	return int(int32(binary.LittleEndian.Uint32(offsets[4*i:])))
}

// checkOffsets requires them to ascend from a non-negative one. The caller checks that
// the last is inside the values.
func checkOffsets(offsets []byte, length int) error {
	if first := offsetAt(offsets, 0); first < 0 {
		return fmt.Errorf("offsets: the first is %d", first)
	}
	for i := range length {
		if a, b := offsetAt(offsets, i), offsetAt(offsets, i+1); b < a {
			return fmt.Errorf("offsets: %d after %d", b, a)
		}
	}
	return nil
}

func checkStrings(valid *memory.Buffer, offsets, values []byte, length int) error {
	for i := range length {
		if valid != nil && valid.Bytes()[i/8]>>(i%8)&1 == 0 {
			continue
		}
		if text := values[offsetAt(offsets, i):offsetAt(offsets, i+1)]; !utf8.Valid(text) {
			return fmt.Errorf("row %d is not UTF-8: %.40q", i, text)
		}
	}
	return nil
}

// countBits counts the ones among the first n.
func countBits(bitmap []byte, n int) (ones int) {
	for ; n >= 64; n, bitmap = n-64, bitmap[8:] {
		ones += bits.OnesCount64(binary.LittleEndian.Uint64(bitmap))
	}
	for i := range n {
		ones += int(bitmap[i/8] >> (i % 8) & 1)
	}
	return ones
}
