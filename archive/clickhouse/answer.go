package clickhouse

import (
	"context"
	"math"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"
	"golang.org/x/sync/errgroup"

	"pillion.dev/archive"
	"pillion.dev/archive/answer"
	"pillion.dev/archive/query"
	"pillion.dev/measure"
)

// engine answers the questions of package query.
type engine struct{ *Archive }

// Windows implements archive.Archive.
func (a *Archive) Windows(ctx context.Context, question archive.Windows) (archive.WindowsAnswer, error) {
	return query.Windows(ctx, engine{a}, question)
}

// Flows implements archive.Archive.
func (a *Archive) Flows(ctx context.Context, question archive.Flows) (archive.FlowsAnswer, error) {
	return query.Flows(ctx, engine{a}, question)
}

// Volumes implements archive.Archive.
func (a *Archive) Volumes(ctx context.Context, question archive.Volumes) (archive.VolumesAnswer, error) {
	return query.Volumes(ctx, engine{a}, question)
}

// RouterDelays implements archive.Archive.
func (a *Archive) RouterDelays(ctx context.Context, question archive.RouterDelays) (archive.RouterDelaysAnswer, error) {
	return query.RouterDelays(ctx, engine{a}, question)
}

// Series implements archive.Archive.
func (a *Archive) Series(ctx context.Context, question archive.Series) ([]archive.Line, error) {
	return query.Series(ctx, engine{a}, question)
}

// Traces implements archive.Archive.
func (a *Archive) Traces(ctx context.Context, question archive.Traces, rows func(arrow.RecordBatch) error) error {
	return query.Traces(ctx, engine{a}, question, rows)
}

// Highest implements archive.Archive.
func (a *Archive) Highest(ctx context.Context, stream, column string, where map[string]string) (int64, error) {
	return query.Highest(ctx, engine{a}, stream, column, where)
}

// Dialect implements query.Engine.
func (engine) Dialect() *query.Dialect { return dialect }

// Table implements query.Engine.
func (e engine) Table(stream string) string { return e.table(stream) }

// Schema implements query.Engine.
func (e engine) Schema(ctx context.Context, stream string) (*measure.Schema, error) {
	return e.schema(ctx, stream)
}

// Read implements query.Engine.
func (e engine) Read(ctx context.Context, sql string, want *arrow.Schema, rows func(arrow.RecordBatch) error) error {
	return e.read(ctx, sql, want, rows)
}

// Survey implements query.Engine. To look for rows that are not rolled up takes a while among many:
// later questions look where there are any.
func (e engine) Survey(ctx context.Context, s *answer.Survey) (query.Plan, error) {
	plan, err := e.plan(ctx, s)
	if err != nil {
		return nil, err
	}
	var turn sync.Mutex
	group, ctx := errgroup.WithContext(ctx)
	read := func(from query.Source, each func(answer.Row)) {
		if len(from) > 0 {
			group.Go(func() error {
				return e.read(ctx, from.Survey(), nil, answer.Each(func(r answer.Row) {
					turn.Lock()
					defer turn.Unlock()
					each(r)
				}))
			})
		}
	}
	var rest, others query.Source
	for _, one := range plan.Source(s, 0) {
		if one.Rest {
			rest = append(rest, one)
		} else {
			others = append(others, one)
		}
	}
	plan.left.from, plan.left.to = math.MaxInt64, math.MinInt64
	read(others, s.Read)
	read(rest, func(r answer.Row) {
		s.Read(r)
		plan.left.from, plan.left.to = min(plan.left.from, r.Int(query.SurveyLeast)), max(plan.left.to, r.Int(query.SurveyLeast+1)+1)
	})
	err = group.Wait()
	if err == nil && len(rest) > 0 {
		plan.known.from, plan.known.to = minute.within(s.From, s.To, s.Whole())
	}
	return plan, err
}
