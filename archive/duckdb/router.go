package duckdb

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"pillion.dev/archive"
	"pillion.dev/measure"
	"pillion.dev/measure/flows"
	"pillion.dev/measure/histogram"
)

// routerRowsMost limits the seconds of rows whose histograms are read; longer ranges are
// sampled by the second.
const routerRowsMost = 3600

// stagesShown are the stages that a packet passes in sequence; the stream also has sums
// and parts of these.
const stagesShown = "('input_queuing', 'processing', 'output_queuing')"

// stageMeasured is true of rows with delays, as package flows reads them.
var stageMeasured = fmt.Sprintf("(packets BETWEEN 1 AND %d AND delay_min_ns <= delay_max_ns AND delay_mean_ns IS NOT NULL)", int64(flows.CountMax))

// RouterDelays implements archive.Archive.
func (a *Archive) RouterDelays(ctx context.Context, question archive.RouterDelays) (archive.RouterDelaysAnswer, error) {
	span := question.To.Sub(question.From)
	if span <= 0 || question.Step <= 0 {
		return archive.RouterDelaysAnswer{}, fmt.Errorf("%w: router delays require a time range and a step", archive.ErrQuery)
	}
	q := &routerReader{question: question}
	q.answer.Sampled = max(1, int64((span+routerRowsMost*time.Second-1)/(routerRowsMost*time.Second)))
	err := a.reader(ctx, 0, func(ctx context.Context, c *connection) error {
		for _, part := range []struct {
			stream *measure.Schema
			ask    func(context.Context, *connection) error
		}{
			{&measure.Router, q.chooseSession}, {&measure.Router, q.askStages},
			{&measure.RouterQueues, q.askQueues}, {&measure.RouterQueues, q.askSizes}, {&measure.RouterBreaks, q.askBreaks},
		} {
			var err error
			if q.schema, err = a.known(part.stream.Name); errors.Is(err, archive.ErrUnknown) {
				continue
			}
			if err := part.ask(ctx, c); err != nil {
				return err
			}
		}
		return nil
	})
	return q.answer, err
}

type routerReader struct {
	question archive.RouterDelays
	schema   *measure.Schema // of the stream that is read
	answer   archive.RouterDelaysAnswer
}

// where is the condition of the rows that count, those of no session included unless
// one has been chosen. Rows belong to the window in which their middle lies.
func (q *routerReader) where(sessions ...string) (sql string, arguments []any) {
	arguments = []any{q.question.Agent, q.question.From.Add(-q.question.Step), q.question.To.Add(q.question.Step)}
	for _, session := range sessions {
		arguments = append(arguments, session)
	}
	return "agent = ? AND time > ? AND time <= ? AND coalesce(session, '') IN (?" + strings.Repeat(", ?", len(sessions)-1) + ")", arguments
}

// start is the SQL of the number of a row's window.
func (q *routerReader) start() string {
	return fmt.Sprintf("((epoch_ns(time) - coalesce(interval_ns, 0) // 2) // %d)::BIGINT", int64(q.question.Step))
}

func (q *routerReader) timeOf(number int64) time.Time {
	return time.Unix(0, number*int64(q.question.Step)).UTC()
}

func (q *routerReader) chooseSession(ctx context.Context, c *connection) error {
	where, arguments := q.where(append(slices.Clone(q.question.Sessions), "")...)
	found := map[string]bool{}
	err := c.query(ctx, fmt.Sprintf("SELECT DISTINCT coalesce(session, '') FROM %s WHERE %s", tableOf(measure.Router.Name), where), arguments,
		each(func(r resultRow) { found[r.text(0)] = true }))
	if i := slices.IndexFunc(q.question.Sessions, func(name string) bool { return found[name] }); i >= 0 {
		q.answer.Session = q.question.Sessions[i]
	}
	return err
}

func (q *routerReader) askStages(ctx context.Context, c *connection) error {
	where, arguments := q.where(q.answer.Session)
	for _, of := range []struct{ column, name string }{{"input", q.question.Input}, {"output", q.question.Output}} {
		if of.name != "" {
			where, arguments = where+" AND "+of.column+" = ?", append(arguments, of.name)
		}
	}
	if q.answer.Sampled > 1 {
		where += fmt.Sprintf(" AND epoch_ns(time) // 1000000000 %% %d = 0", q.answer.Sampled)
	}
	where += " AND stage IN " + stagesShown
	table := tableOf(measure.Router.Name)
	sql := fmt.Sprintf(`SELECT %s AS w, stage, least(sum(packets), 18446744073709551615)::UBIGINT, min(delay_min_ns), max(delay_max_ns), sum(delay_mean_ns::HUGEINT * packets)
		FROM %s WHERE %s AND %s GROUP BY w, stage ORDER BY w, stage`, q.start(), table, where, stageMeasured)
	if err := c.query(ctx, sql, arguments, each(q.readStage)); err != nil {
		return err
	}
	offsets := "delay_offsets_ns"
	if _, err := columnType(q.schema, offsets); err != nil { // an archive from before it existed
		offsets = "NULL::UBIGINT[]"
	}
	sql = fmt.Sprintf(`SELECT w, bound, least(sum(n), 18446744073709551615)::UBIGINT, CASE WHEN count(o) = count(*) THEN try_cast(sum(o) AS UBIGINT) END, stage FROM (
		SELECT %s AS w, stage, unnest(delay_bounds_ns) AS bound, unnest(delay_counts) AS n, unnest(%s) AS o FROM %s WHERE %s AND %s)
		WHERE bound IS NOT NULL AND n > 0 GROUP BY w, stage, bound ORDER BY w, stage, bound`, q.start(), offsets, table, where, stageMeasured)
	type key struct {
		start time.Time
		stage string
	}
	histograms := map[key]*histogram.Histogram{}
	for i := range q.answer.Stages {
		s := &q.answer.Stages[i]
		histograms[key{s.Start, s.Stage}] = &s.Delay.Histogram
	}
	return c.query(ctx, sql, arguments, func(r arrow.RecordBatch) error {
		readHistograms(r, func(number int64, i int) *histogram.Histogram {
			return histograms[key{q.timeOf(number), resultRow{r, i}.text(4)}]
		})
		return nil
	})
}

func (q *routerReader) readStage(r resultRow) {
	q.answer.Stages = append(q.answer.Stages, archive.StageWindow{
		Stage: r.text(1), Start: q.timeOf(r.int(0)),
		Delay: flows.Distribution{Count: r.uint(2), Min: r.int(3), Max: r.int(4), Total: r.total(5)},
	})
}

// whereQueues is the condition of the rows of queues that count.
func (q *routerReader) whereQueues() (sql string, arguments []any) {
	sql, arguments = q.where(q.answer.Session)
	for _, of := range []struct{ side, name string }{{"input", q.question.Input}, {"output", q.question.Output}} {
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
	return c.query(ctx, sql, arguments, each(func(r resultRow) {
		q.answer.Queues = append(q.answer.Queues, archive.QueueWindow{
			Interface: r.text(1), Side: r.text(2), Start: q.timeOf(r.int(0)), Mean: r.float(3), Kernel: r.float(4),
		})
	}))
}

// sizeMost is the largest value of the distributions of queues.
const sizeMost = 1023

// askSizes adds up the distributions of queues, which rows of older agents lack.
func (q *routerReader) askSizes(ctx context.Context, c *connection) error {
	if _, err := columnType(q.schema, "gap_counts"); err != nil { // an archive from before they existed
		return nil
	}
	where, arguments := q.whereQueues()
	for _, of := range []struct {
		values, counts string
		counted        func(*archive.QueueSizes) *[]archive.PacketCount
	}{
		{"sizes", "size_counts", func(s *archive.QueueSizes) *[]archive.PacketCount { return &s.Sizes }},
		{"gap_arrivals", "gap_counts", func(s *archive.QueueSizes) *[]archive.PacketCount { return &s.Arrivals }},
	} {
		sql := fmt.Sprintf(`SELECT interface, side, v::UBIGINT, least(sum(n), 18446744073709551615)::UBIGINT FROM (
			SELECT interface, side, unnest(%s) AS v, unnest(%s) AS n FROM %s WHERE %s)
			WHERE v BETWEEN 0 AND %d AND n > 0 GROUP BY side, interface, v ORDER BY side, interface, v`,
			of.values, of.counts, tableOf(measure.RouterQueues.Name), where, sizeMost)
		err := c.query(ctx, sql, arguments, each(func(r resultRow) {
			counts := of.counted(q.sizesOf(r.text(0), r.text(1)))
			*counts = append(*counts, archive.PacketCount{Packets: r.uint(2), Count: r.uint(3)})
		}))
		if err != nil {
			return err
		}
	}
	return nil
}

// sizesOf returns the distributions of a queue.
func (q *routerReader) sizesOf(device, side string) *archive.QueueSizes {
	i := slices.IndexFunc(q.answer.Sizes, func(s archive.QueueSizes) bool { return s.Interface == device && s.Side == side })
	if i < 0 {
		i = len(q.answer.Sizes)
		q.answer.Sizes = append(q.answer.Sizes, archive.QueueSizes{Interface: device, Side: side})
	}
	return &q.answer.Sizes[i]
}

func (q *routerReader) askBreaks(ctx context.Context, c *connection) error {
	where, arguments := q.where(q.answer.Session)
	sql := fmt.Sprintf(`SELECT * FROM (SELECT epoch_ns(time) AS begun, length_ns, coalesce(cause, ''), coalesce(task, ''), coalesce(depth, 0)::UBIGINT
		FROM %s WHERE %s ORDER BY length_ns DESC LIMIT %d) ORDER BY begun`, tableOf(measure.RouterBreaks.Name), where, q.question.Breaks)
	return c.query(ctx, sql, arguments, each(func(r resultRow) {
		q.answer.Breaks = append(q.answer.Breaks, archive.CoffeeBreak{
			Time: time.Unix(0, r.int(0)).UTC(), Length: time.Duration(r.int(1)), Cause: r.text(2), Task: r.text(3), Depth: r.uint(4),
		})
	}))
}
