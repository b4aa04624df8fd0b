package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"pillion.dev/archive"
	"pillion.dev/archive/answer"
	"pillion.dev/measure"
)

// stagesShown is answer.StagesShown in SQL.
var stagesShown = "('" + strings.Join(answer.StagesShown, "', '") + "')"

// stageMeasured is true of rows with delays, as package flows reads them.
var stageMeasured = measuredBy("packets", "delay")

// RouterDelays implements archive.Archive.
func (a *Archive) RouterDelays(ctx context.Context, question archive.RouterDelays) (archive.RouterDelaysAnswer, error) {
	r, err := answer.NewRouter(question)
	if err != nil {
		return archive.RouterDelaysAnswer{}, err
	}
	q := &routerReader{Router: r, Archive: a}
	for _, part := range []struct {
		stream *measure.Schema
		ask    func(context.Context) error
	}{
		{&measure.Router, q.chooseSession}, {&measure.Router, q.askStages},
		{&measure.RouterQueues, q.askQueues}, {&measure.RouterQueues, q.askSizes}, {&measure.RouterBreaks, q.askBreaks},
	} {
		if _, err = a.schema(ctx, part.stream.Name); errors.Is(err, archive.ErrUnknown) {
			continue
		}
		if err == nil {
			err = part.ask(ctx)
		}
		if err != nil {
			return q.Answer, err
		}
	}
	return q.Answer, nil
}

type routerReader struct {
	*answer.Router
	*Archive
}

// where is the condition of the rows that count, those of no session included unless
// one has been chosen.
func (q *routerReader) where(sessions ...string) string {
	names := make([]string, len(sessions))
	for i, session := range sessions {
		names[i] = literal(session)
	}
	after, last := q.Between()
	terms := slices.Concat([]string{"agent = " + literal(q.Question.Agent)}, since(after.Add(1)), until(last.Add(1)))
	return strings.Join(append(terms, sessionText+" IN ("+strings.Join(names, ", ")+")"), " AND ")
}

// start is the SQL of the number of a row's window.
func (q *routerReader) start() string {
	return fmt.Sprintf("intDiv(time - intDiv(toInt64(ifNull(interval_ns, 0)), 2), %d)", int64(q.Question.Step))
}

func (q *routerReader) chooseSession(ctx context.Context) error {
	found := map[string]bool{}
	sql := fmt.Sprintf("SELECT DISTINCT toString(%s) FROM %s WHERE %s", sessionText, q.table(measure.Router.Name), q.where(append(slices.Clone(q.Question.Sessions), "")...))
	err := q.read(ctx, sql, nil, answer.Each(func(r answer.Row) { found[r.Text(0)] = true }))
	q.Choose(found)
	return err
}

func (q *routerReader) askStages(ctx context.Context) error {
	where := q.where(q.Answer.Session)
	for _, of := range []struct{ column, name string }{{"input", q.Question.Input}, {"output", q.Question.Output}} {
		if of.name != "" {
			where += " AND " + of.column + " = " + literal(of.name)
		}
	}
	if q.Answer.Sampled > 1 {
		where += fmt.Sprintf(" AND intDiv(time, 1000000000) %% %d = 0", q.Answer.Sampled)
	}
	where += " AND stage IN " + stagesShown + " AND " + stageMeasured
	from := fmt.Sprintf("FROM %s WHERE %s", q.table(measure.Router.Name), where)
	sql := fmt.Sprintf("SELECT %s AS w, %s AS k1, %s, min(delay_min_ns), max(delay_max_ns), %s %s GROUP BY w, k1 ORDER BY w, k1",
		q.start(), text("stage"), saturated("packets"), "sum("+total("packets", "delay_mean_ns", stageMeasured)+")", from)
	if err := q.read(ctx, sql, nil, answer.Each(q.ReadStage)); err != nil {
		return err
	}
	h := histogramOf("delay", stageMeasured, "delay_offsets_ns")
	buckets := bucketsSQL([]string{"b0", "b1"}, true, fmt.Sprintf("FROM (SELECT %s AS b0, %s AS b1, %s %s)", q.start(), text("stage"), h.list(), from))
	return q.read(ctx, fmt.Sprintf("SELECT b0, bound, n, offsets, b1 FROM (%s) ORDER BY b0, b1, bound", buckets), nil, q.ReadHistograms)
}

// whereQueues is the condition of the rows of queues that count.
func (q *routerReader) whereQueues() string {
	where := q.where(q.Answer.Session)
	for _, of := range []struct{ side, name string }{{"input", q.Question.Input}, {"output", q.Question.Output}} {
		if of.name != "" {
			where += " AND (side != '" + of.side + "' OR interface = " + literal(of.name) + ")"
		}
	}
	return where
}

func (q *routerReader) askQueues(ctx context.Context) error {
	sql := fmt.Sprintf(`SELECT %s AS w, %s AS k1, %s AS k2, sum(depth_mean * interval_ns) / sum(interval_ns), toFloat64(max(ifNull(kernel_depth, 0)))
		FROM %s WHERE %s AND interval_ns > 0 GROUP BY w, k1, k2 ORDER BY w, k2, k1`,
		q.start(), text("interface"), text("side"), q.table(measure.RouterQueues.Name), q.whereQueues())
	return q.read(ctx, sql, nil, answer.Each(q.ReadQueue))
}

// askSizes adds up the distributions of queues.
func (q *routerReader) askSizes(ctx context.Context) error {
	for i := range answer.QueueDistributions {
		of := &answer.QueueDistributions[i]
		sql := fmt.Sprintf(`SELECT k0, k1, toUInt64(v) AS value, %[1]s FROM (
			SELECT %[2]s AS k0, %[3]s AS k1, %[4]s AS all_values, %[5]s AS all_counts FROM %[6]s WHERE %[7]s AND length(%[4]s) = length(%[5]s))
			ARRAY JOIN all_values AS v, all_counts AS c WHERE v BETWEEN 0 AND %[8]d AND c > 0 GROUP BY k1, k0, value ORDER BY k1, k0, value`,
			saturated("c"), text("interface"), text("side"), of.Values, of.Counts, q.table(measure.RouterQueues.Name), q.whereQueues(), answer.SizeMost)
		if err := q.read(ctx, sql, nil, answer.Each(q.ReadSizes(of))); err != nil {
			return err
		}
	}
	return nil
}

func (q *routerReader) askBreaks(ctx context.Context) error {
	sql := fmt.Sprintf(`SELECT * FROM (SELECT time AS begun, toInt64(ifNull(length_ns, 0)) AS length, %s AS k2, %s AS k3, toUInt64(ifNull(depth, 0)) AS k4
		FROM %s WHERE %s ORDER BY length DESC LIMIT %d) ORDER BY begun`,
		text("cause"), text("task"), q.table(measure.RouterBreaks.Name), q.where(q.Answer.Session), q.Question.Breaks)
	return q.read(ctx, sql, nil, answer.Each(q.ReadBreak))
}
