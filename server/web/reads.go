package web

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"pillion.dev/archive"
	"pillion.dev/measure"
)

// reads is the archive as the caller in a context may read it. All services read through it: it puts the scope of the caller
// into every question.
type reads struct{ Archive }

// Query implements Archive.
func (r reads) Query(ctx context.Context, sql string, arguments []any, limits archive.Limits, rows func(arrow.RecordBatch) error) error {
	limits.Scope = scopeOf(ctx)
	return r.Archive.Query(ctx, sql, arguments, limits, rows)
}

// Series implements Archive.
func (r reads) Series(ctx context.Context, question archive.Series) ([]archive.Line, error) {
	if scopeOf(ctx) != nil {
		if _, err := r.stream(ctx, question.Stream); err != nil {
			return nil, err
		}
	}
	question.Scope = scopeOf(ctx)
	return r.Archive.Series(ctx, question)
}

// Windows implements Archive.
func (r reads) Windows(ctx context.Context, question archive.Windows) (archive.WindowsAnswer, error) {
	question.Scope = scopeOf(ctx)
	return r.Archive.Windows(ctx, question)
}

// Flows implements Archive. A question may have a scope, which limits it further.
func (r reads) Flows(ctx context.Context, question archive.Flows) (archive.FlowsAnswer, error) {
	question.Scope = scopeOf(ctx).And(question.Scope)
	return r.Archive.Flows(ctx, question)
}

// Volumes implements Archive.
func (r reads) Volumes(ctx context.Context, question archive.Volumes) (archive.VolumesAnswer, error) {
	question.Scope = scopeOf(ctx)
	return r.Archive.Volumes(ctx, question)
}

// Traces implements Archive. Of pairs beyond the scope there are none.
func (r reads) Traces(ctx context.Context, question archive.Traces, rows func(arrow.RecordBatch) error) error {
	if !scopeOf(ctx).HasPair(question.Source, question.Destination) {
		return nil
	}
	return r.Archive.Traces(ctx, question, rows)
}

// RouterDelays implements Archive. Of agents beyond the scope there are none.
func (r reads) RouterDelays(ctx context.Context, question archive.RouterDelays) (archive.RouterDelaysAnswer, error) {
	if !scopeOf(ctx).HasAgent(question.Agent) {
		return archive.RouterDelaysAnswer{Sampled: 1}, nil
	}
	return r.Archive.RouterDelays(ctx, question)
}

// Export implements Archive.
func (r reads) Export(ctx context.Context, question archive.Export, rows func(arrow.RecordBatch) error) error {
	if err := r.check(ctx, question.Stream); err != nil {
		return err
	}
	if question.Scope = scopeOf(ctx); question.Scope == nil {
		return r.Archive.Export(ctx, question, rows)
	}
	return r.Archive.Export(ctx, question, func(record arrow.RecordBatch) error {
		clean := cleared(record)
		defer clean.Release()
		return rows(clean)
	})
}

// cleared is a record whose places without a value are zero: a database leaves there what it had in memory, which can be of rows
// beyond the scope, and Arrow files have these bytes.
func cleared(record arrow.RecordBatch) arrow.RecordBatch {
	columns := make([]arrow.Array, record.NumCols())
	for i, column := range record.Columns() {
		data := column.Data()
		kind, fixed := data.DataType().(arrow.FixedWidthDataType)
		if !fixed || kind.BitWidth()%8 != 0 || data.NullN() == 0 {
			columns[i] = column
			continue
		}
		width := kind.BitWidth() / 8
		values := slices.Clone(data.Buffers()[1].Bytes())
		for row := range data.Len() {
			if at := (data.Offset() + row) * width; column.IsNull(row) {
				clear(values[at : at+width])
			}
		}
		zeroed := array.NewData(data.DataType(), data.Len(), []*memory.Buffer{data.Buffers()[0], memory.NewBufferBytes(values)}, nil, data.NullN(), data.Offset())
		columns[i] = array.MakeFromData(zeroed)
		zeroed.Release()
		defer columns[i].Release()
	}
	return array.NewRecordBatch(record.Schema(), columns, record.NumRows())
}

// Streams implements Archive: within a scope, the standard streams, and others with rows in it.
func (r reads) Streams(ctx context.Context) ([]archive.Stream, error) {
	all, err := r.Archive.Streams(ctx)
	if err != nil || scopeOf(ctx) == nil {
		return all, err
	}
	var kept []archive.Stream
	for _, s := range all {
		if s, err = r.limited(ctx, s); err == nil {
			kept = append(kept, s)
		} else if !errors.Is(err, archive.ErrUnknown) && !errors.Is(err, archive.ErrScope) {
			return nil, err
		}
	}
	return kept, nil
}

// stream returns one by name, also a standard one that has no rows yet.
func (r reads) stream(ctx context.Context, name string) (archive.Stream, error) {
	all, err := r.Archive.Streams(ctx)
	if err != nil {
		return archive.Stream{}, err
	}
	for _, s := range all {
		if s.Schema.Name == name {
			return r.limited(ctx, s)
		}
	}
	if schema := measure.FindStandard(name); schema != nil {
		return r.limited(ctx, archive.Stream{Schema: schema})
	}
	return archive.Stream{}, archive.ErrUnknown
}

// rollUps lists the roll-ups of an archive that has any. A caller with a scope sees none: they have rows of all agents.
func (r reads) rollUps(ctx context.Context) ([]archive.Stream, error) {
	rolled, ok := r.Archive.(archive.RolledUp)
	if !ok || scopeOf(ctx) != nil {
		return nil, nil
	}
	list, err := rolled.RollUps(ctx)
	if err != nil {
		return nil, fmt.Errorf("list roll-ups: %w", err)
	}
	return list, nil
}

// check returns archive.ErrScope for streams whose rows are in no scope.
func (r reads) check(ctx context.Context, stream string) error {
	schema := measure.FindStandard(stream)
	if scopeOf(ctx) != nil && schema != nil && archive.OwnershipOf(schema).Source == "" {
		return fmt.Errorf("read %s: %w", stream, archive.ErrScope)
	}
	return nil
}

// limited counts the rows of a stream in the scope of the caller. A stream that is not standard is unknown without any: its
// name belongs to somebody's application.
func (r reads) limited(ctx context.Context, s archive.Stream) (archive.Stream, error) {
	scope, name := scopeOf(ctx), s.Schema.Name
	if scope == nil {
		return s, nil
	}
	if err := r.check(ctx, name); err != nil {
		return archive.Stream{}, err
	}
	standard, some := measure.FindStandard(name) != nil, s.Rows > 0
	s.Rows, s.First, s.Last = 0, time.Time{}, time.Time{}
	if some {
		if err := r.count(ctx, &s); err != nil {
			return archive.Stream{}, err
		}
	}
	if s.Rows == 0 && !standard {
		return archive.Stream{}, archive.ErrUnknown
	}
	return s, nil
}

// count reads how many rows of a stream are in the scope, and the times of the first and the last.
func (r reads) count(ctx context.Context, s *archive.Stream) error {
	lines, err := r.Archive.Series(ctx, archive.Series{
		Stream: s.Schema.Name, Scope: scopeOf(ctx), Columns: []archive.Aggregate{{Column: archive.AgentColumn, Function: "count"}},
		From: time.Unix(0, 1), To: time.Unix(1<<33, 0), Points: 1,
	})
	for _, line := range lines {
		for _, values := range line.Values {
			s.Rows += int64(values[0])
		}
	}
	if err != nil || s.Rows == 0 {
		return err
	}
	for newest, to := range map[bool]*time.Time{false: &s.First, true: &s.Last} {
		question := archive.Export{Stream: s.Schema.Name, Columns: []string{measure.TimeField.Name}, Limit: 1, Newest: newest}
		err := r.Export(ctx, question, func(record arrow.RecordBatch) error {
			if record.NumRows() > 0 {
				*to = time.Unix(0, cellsOf(record.Column(0)).value(0).GetTime()).UTC()
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
