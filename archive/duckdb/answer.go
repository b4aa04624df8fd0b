package duckdb

import (
	"context"
	"fmt"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"pillion.dev/archive"
	"pillion.dev/archive/answer"
	"pillion.dev/archive/query"
	"pillion.dev/measure"
)

// engine answers one question on a connection, whose transaction all its statements share.
type engine struct {
	a *Archive
	*connection
}

// ask answers a question as package query does.
func ask[Q, A any](ctx context.Context, a *Archive, of func(context.Context, query.Engine, Q) (A, error), question Q) (out A, err error) {
	err = a.reader(ctx, 0, func(ctx context.Context, c *connection) (err error) {
		out, err = of(ctx, engine{a, c}, question)
		return err
	})
	return out, err
}

// Windows implements archive.Archive.
func (a *Archive) Windows(ctx context.Context, question archive.Windows) (archive.WindowsAnswer, error) {
	return ask(ctx, a, query.Windows, question)
}

// Flows implements archive.Archive.
func (a *Archive) Flows(ctx context.Context, question archive.Flows) (archive.FlowsAnswer, error) {
	return ask(ctx, a, query.Flows, question)
}

// Volumes implements archive.Archive.
func (a *Archive) Volumes(ctx context.Context, question archive.Volumes) (archive.VolumesAnswer, error) {
	return ask(ctx, a, query.Volumes, question)
}

// RouterDelays implements archive.Archive.
func (a *Archive) RouterDelays(ctx context.Context, question archive.RouterDelays) (archive.RouterDelaysAnswer, error) {
	return ask(ctx, a, query.RouterDelays, question)
}

// Series implements archive.Archive.
func (a *Archive) Series(ctx context.Context, question archive.Series) ([]archive.Line, error) {
	return ask(ctx, a, query.Series, question)
}

// Traces implements archive.Archive.
func (a *Archive) Traces(ctx context.Context, question archive.Traces, rows func(arrow.RecordBatch) error) error {
	return a.reader(ctx, 0, func(ctx context.Context, c *connection) error { return query.Traces(ctx, engine{a, c}, question, rows) })
}

// Highest implements archive.Archive.
func (a *Archive) Highest(ctx context.Context, stream, column string, where map[string]string) (highest int64, err error) {
	err = a.reader(ctx, 0, func(ctx context.Context, c *connection) (err error) {
		highest, err = query.Highest(ctx, engine{a, c}, stream, column, where)
		return err
	})
	return highest, err
}

// Dialect implements query.Engine.
func (engine) Dialect() *query.Dialect { return dialect }

// Table implements query.Engine.
func (engine) Table(stream string) string { return tableOf(stream) }

// Schema implements query.Engine.
func (e engine) Schema(_ context.Context, stream string) (*measure.Schema, error) {
	return e.a.known(stream)
}

// Read implements query.Engine.
func (e engine) Read(ctx context.Context, sql string, want *arrow.Schema, rows func(arrow.RecordBatch) error) error {
	if want != nil {
		rows = typed(want, rows)
	}
	return e.query(ctx, sql, nil, rows)
}

// Survey implements query.Engine.
func (e engine) Survey(ctx context.Context, s *answer.Survey) (query.Plan, error) {
	return plan{}, e.query(ctx, plan{}.Source(s, 0).Survey(), nil, answer.Each(s.Read))
}

// plan of every question: it reads rows of flows.
type plan struct{}

// Source implements query.Plan. The first terms are what the zone maps of the table understand.
func (plan) Source(s *answer.Survey, step time.Duration) query.Source {
	r := query.Representation{Dialect: dialect, Raw: true}
	within := fmt.Sprintf("%[1]s >= %[2]d AND %[1]s < %[3]d", r.Of("time"), s.From.UnixNano(), s.To.UnixNano())
	terms := query.All(dialect.SelectionTerms(s, step != 0), dialect.Since(s.From), dialect.Until(s.End()), []string{within})
	return query.Source{{Table: tableOf(measure.Flows.Name), Representation: r, Where: terms}}
}

// Kept implements query.Plan.
func (plan) Kept(time.Time) time.Duration { return 0 }
