package duckdb

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	duckdb "github.com/duckdb/duckdb-go-bindings"

	"pillion.dev/archive"
	"pillion.dev/measure"
)

// commit is what one call of Store is about to write.
type commit struct {
	batches  []archive.Batch
	stored   []bool
	rejected map[int]error
	schemas  map[string]*measure.Schema // changed ones only
	states   map[sender]*delivery       // changed ones only
	streams  map[string][]int           // new batches by stream
	at       time.Time                  // of arrival
	// sequences that agents begin, and the columns that they add, by stream.
	sequences map[string]int
	shapes    map[string]map[string]int
}

// Store implements archive.Archive. A rejected batch is not noted as delivered:
// once its sender gives it up it counts as missing.
func (a *Archive) Store(ctx context.Context, batches []archive.Batch) ([]bool, map[int]error, error) {
	done, err := a.enter(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer done()
	a.writing.Lock()
	defer a.writing.Unlock()
	if a.doubt {
		if err := a.recall(ctx); err != nil {
			return nil, nil, fmt.Errorf("store %d batches: %w", len(batches), a.judge(err))
		}
	}
	c := a.plan(batches)
	if len(c.states) == 0 {
		return c.stored, c.rejected, nil
	}
	left, err := a.writeAtOnce(ctx, c)
	for _, p := range left {
		if err == nil {
			err = a.storePart(ctx, c, p)
		}
	}
	if err != nil {
		return nil, nil, fmt.Errorf("store %d batches: %w", len(batches), a.judge(err))
	}
	return c.stored, c.rejected, nil
}

// storePart writes a part that is not on disk.
func (a *Archive) storePart(ctx context.Context, whole, p *commit) error {
	err := a.writeFirst(ctx, p)
	if err == nil {
		a.accept(p)
		return nil
	}
	if !ofData(err) {
		return err
	}
	fresh := p.fresh()
	if len(fresh) == 1 {
		whole.stored[fresh[0]], whole.rejected[fresh[0]] = false, err
		return nil
	}
	return a.storeEach(ctx, whole, fresh)
}

// storeEach finds the batch that DuckDB does not take. What was stored before an
// error stays so; sent again, it is a duplicate.
func (a *Archive) storeEach(ctx context.Context, whole *commit, places []int) error {
	for _, i := range places {
		one := a.plan(whole.batches[i : i+1])
		var err error
		if len(one.states) > 0 {
			err = a.writeOnce(ctx, one)
		}
		if err == nil {
			a.accept(one)
			err = one.rejected[0]
			whole.stored[i] = one.stored[0]
		} else if ofData(err) {
			whole.stored[i] = false
		} else {
			return fmt.Errorf("store batch of %q: %w", whole.batches[i].Stream, err)
		}
		if err != nil {
			whole.rejected[i] = err
		}
	}
	return nil
}

// ofData reports whether an error is caused by the rows, so that a retry would fail too.
func ofData(err error) bool {
	var said *sqlError
	return errors.As(err, &said) && slices.Contains([]duckdb.ErrorType{
		duckdb.ErrorTypeConversion, duckdb.ErrorTypeOutOfRange, duckdb.ErrorTypeConstraint, duckdb.ErrorTypeMismatchType,
	}, said.kind)
}

// plan sorts out duplicates and batches that cannot be stored.
func (a *Archive) plan(batches []archive.Batch) *commit {
	c := &commit{
		batches: batches, stored: make([]bool, len(batches)), rejected: map[int]error{},
		schemas: map[string]*measure.Schema{}, states: map[sender]*delivery{}, streams: map[string][]int{},
		at: a.options.Now(), sequences: map[string]int{}, shapes: map[string]map[string]int{},
	}
	for i := range batches {
		b := &batches[i]
		key := sender{b.Agent, b.Stream, b.Epoch}
		state := c.states[key]
		if state == nil {
			state = a.deliveries[key]
		}
		if state != nil && state.has(b.Sequence) {
			a.again(key, state, c.at)
			continue
		}
		if err := a.admit(c, b, key); err != nil {
			c.rejected[i] = err
			continue
		}
		c.stored[i] = true
		c.streams[b.Stream] = append(c.streams[b.Stream], i)
	}
	return c
}

// streamsMost limits the tables that agents can create.
const streamsMost = 1000

func (a *Archive) admit(c *commit, b *archive.Batch, key sender) (err error) {
	if err := inspect(b); err != nil {
		return err
	}
	want, changed, err := a.admitShape(c, b)
	if err != nil {
		return err
	}
	state := c.states[key]
	if state == nil {
		state = a.deliveries[key]
		if err := a.admitSequence(c, key, state); err != nil {
			return err
		}
		if state == nil {
			state = &delivery{}
			if a.deliveries[sender{b.Agent, b.Stream, foldedEpoch}] != nil {
				state.next = min(b.Oldest, b.Sequence) // what is before may have been counted
			}
		}
		state = state.clone()
	}
	if err := state.add(b.Sequence, b.Oldest, b.Record.NumRows()); err != nil {
		return fmt.Errorf("store batch %d of %q: %w", b.Sequence, b.Stream, err)
	}
	state.seen = c.at
	c.states[key] = state
	if changed {
		c.schemas[b.Stream] = want
	}
	a.declared[b.Stream] = a.declared[b.Stream] || b.Agent == archive.OwnAgent && b.Record.NumRows() == 0
	return nil
}

// inspect rejects what DuckDB would refuse or misread.
func inspect(b *archive.Batch) (err error) {
	defer func() {
		if r := recover(); r != nil { // arrow panics on some malformed arrays
			err = fmt.Errorf("inspect batch of %q: %w: %v", b.Stream, measure.ErrBatch, r)
		}
	}()
	if b.Schema == nil || b.Record == nil || b.Schema.Name != b.Stream {
		return fmt.Errorf("inspect batch of %q: %w: its schema is that of another stream", b.Stream, measure.ErrBatch)
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
		return inspectText(c.ValueOffsets(), textOf(c), n, true)
	case *array.Binary:
		return inspectText(c.ValueOffsets(), textOf(c), n, false)
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
		_ = column.Data().Buffers()[1].Bytes()[:(column.Data().Offset()+n)*typeWidth(t)]
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

// write commits to disk.
func (a *Archive) write(ctx context.Context, c *commit) error {
	if err := a.shape(ctx, c); err != nil {
		return err
	}
	return a.fill(ctx, a.writer, c)
}

// shape adds columns to tables, which is harmless if the commit fails afterwards.
func (a *Archive) shape(ctx context.Context, c *commit) error {
	for name, want := range c.schemas {
		if err := a.writer.widen(ctx, a.schemas[name], want, func() error { return a.saveShapes(ctx, c, name) }); err != nil {
			return err
		}
		a.cache.Lock()
		a.schemas[name] = want
		for agent, shapes := range c.shapes {
			if n := shapes[name]; n > 0 {
				a.holding(agent).shapes[name] += n
			}
		}
		a.cache.Unlock()
	}
	return nil
}

// fill writes rows and delivery states in one transaction.
func (a *Archive) fill(ctx context.Context, on *connection, c *commit) error {
	return on.inTransaction(ctx, func() error {
		for _, stream := range slices.Sorted(maps.Keys(c.streams)) {
			if err := a.append(on, stream, c); err != nil {
				return err
			}
		}
		if a.untidy() {
			if err := a.compact(ctx); err != nil {
				return err
			}
		}
		return on.saveDeliveries(a.revision+1, c.states)
	})
}

// untidy reports whether most of the delivery log is out of date.
func (a *Archive) untidy() bool { return a.stale || a.logged > 10_000+4*len(a.deliveries) }

// compact rewrites the delivery log without obsolete entries.
func (a *Archive) compact(ctx context.Context) error {
	if err := a.writer.exec(ctx, "DELETE FROM pillion.delivery"); err != nil {
		return err
	}
	a.logged, a.stale = 0, false
	return a.writer.saveDeliveries(a.revision, a.deliveries)
}

// accept updates the state in memory after a commit.
func (a *Archive) accept(c *commit) {
	a.cache.Lock()
	defer a.cache.Unlock()
	a.revision++
	if a.logged == 0 {
		a.logged = len(a.deliveries)
	}
	a.logged += len(c.states)
	for key, state := range c.states {
		h, before := a.holding(key.agent), a.deliveries[key]
		if before == nil {
			h.sequences++
		} else {
			h.gaps -= len(before.extras)
		}
		h.gaps += len(state.extras)
		a.heard(key, before == nil, c.at)
		a.used[key.stream] = c.at
		a.deliveries[key] = state
	}
}

func (a *Archive) append(on *connection, stream string, c *commit) error {
	table := a.schemas[stream]
	types := tableTypes(table)
	parts := make([]part, 0, len(c.streams[stream]))
	var made []arrow.Array
	defer func() {
		for _, m := range made {
			m.Release()
		}
	}()
	for _, i := range c.streams[stream] {
		b := &c.batches[i]
		p := part{rows: int(b.Record.NumRows()), columns: make([]arrow.Array, len(types))}
		agent := repeated(b.Agent, p.rows)
		made = append(made, agent)
		p.columns[0] = agent
		for k, f := range table.Fields {
			if f == archive.ArrivalField {
				p.columns[k+1] = constant(c.at, p.rows)
				made = append(made, p.columns[k+1])
				continue
			}
			j := b.Schema.Index(f.Name)
			if j < 0 {
				continue
			}
			column := b.Record.Column(j)
			if from := b.Schema.Fields[j].Type; from != f.Type {
				column = widened(column, f.Type)
				made = append(made, column)
			}
			p.columns[k+1] = column
		}
		parts = append(parts, p)
	}
	return on.appendParts("main", stream, types, parts)
}

// repeated is a column of one text: its strings share the bytes where they can.
func repeated(text string, rows int) arrow.Array {
	offsets := make([]int32, rows+1)
	for i := range offsets {
		offsets[i] = int32(i * len(text))
	}
	return array.NewStringData(array.NewData(arrow.BinaryTypes.String, rows, []*memory.Buffer{
		nil, memory.NewBufferBytes(arrow.Int32Traits.CastToBytes(offsets)), memory.NewBufferBytes(bytes.Repeat([]byte(text), rows)),
	}, nil, 0, 0))
}

// constant is a column of one time.
func constant(at time.Time, rows int) arrow.Array {
	values := make([]arrow.Timestamp, rows)
	for i := range values {
		values[i] = arrow.Timestamp(at.UnixNano())
	}
	return array.NewTimestampData(array.NewData(measure.ArrowType(measure.Time), rows, []*memory.Buffer{
		nil, memory.NewBufferBytes(arrow.TimestampTraits.CastToBytes(values)),
	}, nil, 0, 0))
}

// widened is a column in a type that holds all its values.
func widened(column arrow.Array, to measure.Type) arrow.Array {
	b := array.NewBuilder(memory.DefaultAllocator, measure.ArrowType(to))
	defer b.Release()
	for i := range column.Len() {
		var v int64
		switch c := column.(type) {
		case *array.Int32:
			v = int64(c.Value(i))
		case *array.Uint32:
			v = int64(c.Value(i))
		}
		switch b := b.(type) {
		case *array.Int64Builder:
			b.Append(v)
		case *array.Uint64Builder:
			b.Append(uint64(v))
		case *array.Float64Builder:
			b.Append(float64(v))
		}
	}
	values := b.NewArray()
	if column.NullN() == 0 {
		return values
	}
	defer values.Release()
	nulls := make([]byte, (column.Len()+7)/8)
	for i := range column.Len() {
		if column.IsValid(i) {
			nulls[i/8] |= 1 << (i % 8)
		}
	}
	buffers := []*memory.Buffer{memory.NewBufferBytes(nulls), values.Data().Buffers()[1]}
	return array.MakeFromData(array.NewData(values.DataType(), column.Len(), buffers, nil, column.NullN(), 0))
}
