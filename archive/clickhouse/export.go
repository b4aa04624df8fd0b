package clickhouse

import (
	"context"
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"pillion.dev/archive"
	"pillion.dev/archive/answer"
	"pillion.dev/measure"
)

// exportRows are sorted at once: hours are put together up to this many rows.
const exportRows = 1 << 20

// hours is a range of hours since 1970, inclusive, with the number of its rows.
type hours struct{ first, last, rows int64 }

// Export implements archive.Archive. Rows are sorted by the hour, which bounds the memory of
// the servers: each shard sorts its rows, and one merges them.
func (a *Archive) Export(ctx context.Context, question archive.Export, rows func(arrow.RecordBatch) error) error {
	s, err := a.schema(ctx, question.Stream)
	if err != nil {
		return err
	}
	where, err := dialect.Condition(s, question.Scope, question.Where, question.From, question.To)
	if err != nil {
		return err
	}
	columns, schema, err := dialect.Columns(s, question.Columns)
	if err != nil {
		return err
	}
	ranges, err := a.hours(ctx, s, where)
	if err != nil {
		return err
	}
	direction := ""
	if question.Newest {
		slices.Reverse(ranges)
		direction = " DESC"
	}
	left := question.Limit
	for _, r := range ranges {
		sql := fmt.Sprintf("SELECT %s FROM %s WHERE %s AND %s BETWEEN %s AND %s ORDER BY time%s", columns, a.table(s.Name), where, hour, integer(r.first), integer(r.last), direction)
		if question.Limit > 0 {
			if left <= 0 {
				return nil
			}
			sql += fmt.Sprintf(" LIMIT %d", left)
		}
		err := a.read(ctx, sql, schema, func(r arrow.RecordBatch) error {
			left -= r.NumRows()
			return rows(r)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// hours are those with rows, ascending.
func (a *Archive) hours(ctx context.Context, s *measure.Schema, where string) (list []hours, err error) {
	sql := fmt.Sprintf("SELECT %s AS _hour, toInt64(count()) FROM %s WHERE %s GROUP BY _hour ORDER BY _hour", hour, a.table(s.Name), where)
	err = a.read(ctx, sql, nil, answer.Each(func(r answer.Row) {
		one := hours{r.Int(0), r.Int(0), r.Int(1)}
		if n := len(list); n > 0 && list[n-1].rows+one.rows <= exportRows {
			list[n-1].last = one.last
			list[n-1].rows += one.rows
			return
		}
		list = append(list, one)
	}))
	return list, err
}
