package duckdb

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"pillion.dev/archive"
	"pillion.dev/archive/answer"
	"pillion.dev/measure"
	"pillion.dev/measure/flows"
)

// stagesShown is answer.StagesShown in SQL.
var stagesShown = "('" + strings.Join(answer.StagesShown, "', '") + "')"

// stageMeasured is true of rows with delays, as package flows reads them.
var stageMeasured = fmt.Sprintf("(packets BETWEEN 1 AND %d AND delay_min_ns <= delay_max_ns AND delay_mean_ns IS NOT NULL)", int64(flows.CountMax))

// RouterDelays implements archive.Archive.
func (a *Archive) RouterDelays(ctx context.Context, question archive.RouterDelays) (archive.RouterDelaysAnswer, error) {
	r, err := answer.NewRouter(question)
	if err != nil {
		return archive.RouterDelaysAnswer{}, err
	}
	q := &routerReader{r}
	err = a.reader(ctx, 0, func(ctx context.Context, c *connection) error {
		for _, part := range []struct {
			stream *measure.Schema
			ask    func(context.Context, *connection) error
		}{
			{&measure.Router, q.chooseSession}, {&measure.Router, q.askStages},
			{&measure.RouterQueues, q.askQueues}, {&measure.RouterQueues, q.askSizes}, {&measure.RouterBreaks, q.askBreaks},
		} {
			if _, err := a.known(part.stream.Name); errors.Is(err, archive.ErrUnknown) {
				continue
			}
			if err := part.ask(ctx, c); err != nil {
				return err
			}
		}
		return nil
	})
	return q.Answer, err
}

type routerReader struct{ *answer.Router }

// where is the condition of the rows that count, those of no session included unless
// one has been chosen. Rows belong to the window in which their middle lies.
func (q *routerReader) where(sessions ...string) (sql string, arguments []any) {
	after, until := q.Between()
	arguments = []any{q.Question.Agent, after, until}
	for _, session := range sessions {
		arguments = append(arguments, session)
	}
	return "agent = ? AND time > ? AND time <= ? AND coalesce(session, '') IN (?" + strings.Repeat(", ?", len(sessions)-1) + ")", arguments
}

// start is the SQL of the number of a row's window.
func (q *routerReader) start() string {
	return fmt.Sprintf("((epoch_ns(time) - coalesce(interval_ns, 0) // 2) // %d)::BIGINT", int64(q.Question.Step))
}

func (q *routerReader) chooseSession(ctx context.Context, c *connection) error {
	where, arguments := q.where(append(slices.Clone(q.Question.Sessions), "")...)
	found := map[string]bool{}
	err := c.query(ctx, fmt.Sprintf("SELECT DISTINCT coalesce(session, '') FROM %s WHERE %s", tableOf(measure.Router.Name), where), arguments,
		answer.Each(func(r answer.Row) { found[r.Text(0)] = true }))
	q.Choose(found)
	return err
}

func (q *routerReader) askStages(ctx context.Context, c *connection) error {
	where, arguments := q.where(q.Answer.Session)
	for _, of := range []struct{ column, name string }{{"input", q.Question.Input}, {"output", q.Question.Output}} {
		if of.name != "" {
			where, arguments = where+" AND "+of.column+" = ?", append(arguments, of.name)
		}
	}
	if q.Answer.Sampled > 1 {
		where += fmt.Sprintf(" AND epoch_ns(time) // 1000000000 %% %d = 0", q.Answer.Sampled)
	}
	where += " AND stage IN " + stagesShown
	table := tableOf(measure.Router.Name)
	sql := fmt.Sprintf(`SELECT %s AS w, stage, least(sum(packets), 18446744073709551615)::UBIGINT, min(delay_min_ns), max(delay_max_ns), sum(delay_mean_ns::HUGEINT * packets)
		FROM %s WHERE %s AND %s GROUP BY w, stage ORDER BY w, stage`, q.start(), table, where, stageMeasured)
	if err := c.query(ctx, sql, arguments, answer.Each(q.ReadStage)); err != nil {
		return err
	}
	sql = fmt.Sprintf(`SELECT w, bound, least(sum(n), 18446744073709551615)::UBIGINT, CASE WHEN count(o) = count(*) THEN try_cast(sum(o) AS UBIGINT) END, stage FROM (
		SELECT %s AS w, stage, unnest(delay_bounds_ns) AS bound, unnest(delay_counts) AS n, unnest(delay_offsets_ns) AS o FROM %s WHERE %s AND %s)
		WHERE bound IS NOT NULL AND n > 0 GROUP BY w, stage, bound ORDER BY w, stage, bound`, q.start(), table, where, stageMeasured)
	return c.query(ctx, sql, arguments, q.ReadHistograms)
}

// whereQueues is the condition of the rows of queues that count.
func (q *routerReader) whereQueues() (sql string, arguments []any) {
	sql, arguments = q.where(q.Answer.Session)
	for _, of := range []struct{ side, name string }{{"input", q.Question.Input}, {"output", q.Question.Output}} {
		if of.name != "" {
			sql, arguments = sql+" AND (side <> '"+of.side+"' OR interface = ?)", append(arguments, of.name)
		}
	}
	return sql, arguments
}

func (q *routerReader) askQueues(ctx context.Context, c *connection) error {
	where, arguments := q.whereQueues()
	sql := fmt.Sprintf(`SELECT %s AS w, interface, side, sum(depth_mean * interval_ns) / sum(interval_ns), max(coalesce(kernel_depth, 0))::DOUBLE
		FROM %s WHERE %s AND interval_ns > 0 GROUP BY w, interface, side ORDER BY w, side, interface`, q.start(), tableOf(measure.RouterQueues.Name), where)
	return c.query(ctx, sql, arguments, answer.Each(q.ReadQueue))
}

// askSizes adds up the distributions of queues.
func (q *routerReader) askSizes(ctx context.Context, c *connection) error {
	where, arguments := q.whereQueues()
	for i := range answer.QueueDistributions {
		of := &answer.QueueDistributions[i]
		sql := fmt.Sprintf(`SELECT interface, side, v::UBIGINT, least(sum(n), 18446744073709551615)::UBIGINT FROM (
			SELECT interface, side, unnest(%s) AS v, unnest(%s) AS n FROM %s WHERE %s)
			WHERE v BETWEEN 0 AND %d AND n > 0 GROUP BY side, interface, v ORDER BY side, interface, v`,
			of.Values, of.Counts, tableOf(measure.RouterQueues.Name), where, answer.SizeMost)
		if err := c.query(ctx, sql, arguments, answer.Each(q.ReadSizes(of))); err != nil {
			return err
		}
	}
	return nil
}

func (q *routerReader) askBreaks(ctx context.Context, c *connection) error {
	where, arguments := q.where(q.Answer.Session)
	sql := fmt.Sprintf(`SELECT * FROM (SELECT epoch_ns(time) AS begun, length_ns, coalesce(cause, ''), coalesce(task, ''), coalesce(depth, 0)::UBIGINT
		FROM %s WHERE %s ORDER BY length_ns DESC LIMIT %d) ORDER BY begun`, tableOf(measure.RouterBreaks.Name), where, q.Question.Breaks)
	return c.query(ctx, sql, arguments, answer.Each(q.ReadBreak))
}
