package duckdb

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	duckdb "github.com/duckdb/duckdb-go-bindings"

	"pillion.dev/archive"
	"pillion.dev/archive/ledger"
	"pillion.dev/measure"
)

// commit is what one transaction is about to write.
type commit struct{ ledger.Commit }

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
	if len(c.States) == 0 {
		return c.Stored, c.Rejected, nil
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
	a.acknowledge()
	return c.Stored, c.Rejected, nil
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
	fresh := p.Fresh()
	if len(fresh) == 1 {
		whole.Stored[fresh[0]], whole.Rejected[fresh[0]] = false, err
		return nil
	}
	return a.storeEach(ctx, whole, fresh)
}

// storeEach finds the batch that DuckDB does not take. What was stored before an
// error stays so; sent again, it is a duplicate.
func (a *Archive) storeEach(ctx context.Context, whole *commit, places []int) error {
	for _, i := range places {
		one := a.plan(whole.Batches[i : i+1])
		var err error
		if len(one.States) > 0 {
			err = a.writeOnce(ctx, one)
		}
		if err == nil {
			a.accept(one)
			err = one.Rejected[0]
			whole.Stored[i] = one.Stored[0]
		} else if ofData(err) {
			whole.Stored[i] = false
		} else {
			return fmt.Errorf("store batch of %q: %w", whole.Batches[i].Stream, err)
		}
		if err != nil {
			whole.Rejected[i] = err
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
	a.cache.Lock()
	defer a.cache.Unlock()
	return &commit{*a.book.Plan(a.catalog, batches, a.arrivalTime())}
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
	for name, want := range c.Schemas {
		if err := a.writer.widen(ctx, a.catalog.Schemas[name], want, func() error { return a.saveShapes(ctx, c, name) }); err != nil {
			return err
		}
		a.cache.Lock()
		a.catalog.Schemas[name] = want
		for agent, shapes := range c.Shapes {
			if n := shapes[name]; n > 0 {
				a.catalog.AddShape(agent, name, n)
			}
		}
		a.cache.Unlock()
	}
	return nil
}

// fill writes rows and delivery states in one transaction.
func (a *Archive) fill(ctx context.Context, on *connection, c *commit) error {
	return on.inTransaction(ctx, func() error {
		for _, stream := range slices.Sorted(maps.Keys(c.Streams)) {
			if err := a.append(on, stream, c); err != nil {
				return err
			}
		}
		if a.untidy() {
			if err := a.compact(ctx); err != nil {
				return err
			}
		}
		if len(a.options.Arrivals) > 0 {
			if err := on.saveArrivals(a.options.Arrivals, a.revision+1, c); err != nil {
				return err
			}
		}
		return on.saveDeliveries(a.revision+1, c.States)
	})
}

// untidy reports whether most of the delivery log is out of date.
func (a *Archive) untidy() bool { return a.book.Stale() || a.logged > 10_000+4*a.book.Len() }

// compact rewrites the delivery log without obsolete entries.
func (a *Archive) compact(ctx context.Context) error {
	if err := a.writer.exec(ctx, "DELETE FROM pillion.delivery"); err != nil {
		return err
	}
	a.logged = 0
	a.book.Expired()
	return a.writer.saveDeliveries(a.revision, a.book.All())
}

// accept updates the state in memory after a commit.
func (a *Archive) accept(c *commit) {
	a.cache.Lock()
	defer a.cache.Unlock()
	a.revision++
	if a.logged == 0 {
		a.logged = a.book.Len()
	}
	a.logged += len(c.States)
	a.book.Accept(&c.Commit)
	for key := range c.States {
		a.used[key.Stream] = c.At
	}
}

func (a *Archive) append(on *connection, stream string, c *commit) error {
	table := a.catalog.Schemas[stream]
	types := tableTypes(table)
	parts := make([]part, 0, len(c.Streams[stream]))
	var made []arrow.Array
	defer func() {
		for _, m := range made {
			m.Release()
		}
	}()
	for _, i := range c.Streams[stream] {
		b := &c.Batches[i]
		p := part{rows: int(b.Record.NumRows()), columns: make([]arrow.Array, len(types))}
		agent := repeated(b.Agent, p.rows)
		made = append(made, agent)
		p.columns[0] = agent
		for k, f := range table.Fields {
			if f == archive.ArrivalField {
				p.columns[k+1] = constant(c.At, p.rows)
				made = append(made, p.columns[k+1])
				continue
			}
			j := b.Schema.Index(f.Name)
			if j < 0 {
				continue
			}
			column := b.Record.Column(j)
			if from := b.Schema.Fields[j].Type; from != f.Type {
				column = measure.WidenColumn(column, f.Type)
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
