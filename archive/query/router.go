package query

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

// RouterDelays answers archive.RouterDelays.
func RouterDelays(ctx context.Context, e Engine, question archive.RouterDelays) (archive.RouterDelaysAnswer, error) {
	r, err := answer.NewRouter(question)
	if err != nil {
		return archive.RouterDelaysAnswer{}, err
	}
	q := &routerReader{Router: r, Engine: e, d: e.Dialect()}
	for _, part := range []struct {
		stream *measure.Schema
		ask    func(context.Context) error
	}{
		{&measure.Router, q.chooseSession}, {&measure.Router, q.askStages},
		{&measure.RouterQueues, q.askQueues}, {&measure.RouterQueues, q.askSizes}, {&measure.RouterBreaks, q.askBreaks},
	} {
		if _, err = e.Schema(ctx, part.stream.Name); errors.Is(err, archive.ErrUnknown) {
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
	Engine
	d *Dialect
}

// where is the condition of the rows that count; it includes rows without a session unless a session has been
// chosen.
func (q *routerReader) where(sessions ...string) string {
	after, last := q.Between()
	terms := slices.Concat([]string{"agent = " + q.d.Literal(q.Question.Agent)}, q.d.Since(after.Add(1)), q.d.Until(last.Add(1)))
	return strings.Join(append(terms, q.d.In(sessionText, sessions)), " AND ")
}

// start is the SQL of the number of a row's window.
func (q *routerReader) start() string {
	half := sql(q.d.Div, sql(q.d.Number, "interval_ns"), 2)
	return sql(q.d.Div, q.d.TimeNs+" - "+half, int64(q.Question.Step))
}

func (q *routerReader) chooseSession(ctx context.Context) error {
	found := map[string]bool{}
	distinct := fmt.Sprintf("SELECT DISTINCT %s FROM %s WHERE %s", q.d.Text("session"), q.Table(measure.Router.Name), q.where(append(slices.Clone(q.Question.Sessions), "")...))
	err := q.Read(ctx, distinct, nil, answer.Each(func(r answer.Row) { found[r.Text(0)] = true }))
	q.Choose(found)
	return err
}

func (q *routerReader) askStages(ctx context.Context) error {
	where := q.where(q.Answer.Session)
	for _, of := range []struct{ column, name string }{{"input", q.Question.Input}, {"output", q.Question.Output}} {
		if of.name != "" {
			where += " AND " + of.column + " = " + q.d.Literal(of.name)
		}
	}
	if q.Answer.Sampled > 1 {
		where += fmt.Sprintf(" AND %s %% %d = 0", sql(q.d.Div, q.d.TimeNs, 1_000_000_000), q.Answer.Sampled)
	}
	measured := q.d.Measured("packets", "delay")
	where += " AND " + q.d.In("stage", answer.StagesShown) + " AND " + measured
	from := fmt.Sprintf("FROM %s WHERE %s", q.Table(measure.Router.Name), where)
	stages := fmt.Sprintf("SELECT %s AS w, %s AS k1, %s, min(delay_min_ns), max(delay_max_ns), sum(%s) %s GROUP BY w, k1 ORDER BY w, k1",
		q.start(), q.d.Text("stage"), sql(q.d.Saturated, "packets"), sql(q.d.Total, "packets", "delay_mean_ns", measured), from)
	if err := q.Read(ctx, stages, nil, answer.Each(q.ReadStage)); err != nil {
		return err
	}
	buckets := q.d.buckets([]string{"b0", "b1"}, true, fmt.Sprintf("FROM (SELECT %s AS b0, %s AS b1, %s %s)", q.start(), q.d.Text("stage"), q.d.Histogram("delay", measured), from))
	return q.Read(ctx, fmt.Sprintf("SELECT b0, bound, n, offsets, b1 FROM (%s) ORDER BY b0, b1, bound", buckets), nil, q.ReadHistograms)
}

// whereQueues is the condition of the rows of queues that count.
func (q *routerReader) whereQueues() string {
	where := q.where(q.Answer.Session)
	for _, of := range []struct{ side, name string }{{"input", q.Question.Input}, {"output", q.Question.Output}} {
		if of.name != "" {
			where += " AND (side != '" + of.side + "' OR interface = " + q.d.Literal(of.name) + ")"
		}
	}
	return where
}

func (q *routerReader) askQueues(ctx context.Context) error {
	queues := fmt.Sprintf(`SELECT %s AS w, %s AS k1, %s AS k2, sum(depth_mean * interval_ns) / sum(interval_ns), %s
		FROM %s WHERE %s AND interval_ns > 0 GROUP BY w, k1, k2 ORDER BY w, k2, k1`,
		q.start(), q.d.Text("interface"), q.d.Text("side"), sql(q.d.ToFloat, "max(ifNull(kernel_depth, 0))"), q.Table(measure.RouterQueues.Name), q.whereQueues())
	return q.Read(ctx, queues, nil, answer.Each(q.ReadQueue))
}

// askSizes adds up the distributions of queues.
func (q *routerReader) askSizes(ctx context.Context) error {
	for i := range answer.QueueDistributions {
		of := &answer.QueueDistributions[i]
		lists := fmt.Sprintf("FROM (SELECT %[1]s AS k0, %[2]s AS k1, %[3]s AS all_values, %[4]s AS all_counts FROM %[5]s WHERE %[6]s AND length(%[3]s) = length(%[4]s))",
			q.d.Text("interface"), q.d.Text("side"), of.Values, of.Counts, q.Table(measure.RouterQueues.Name), q.whereQueues())
		sizes := fmt.Sprintf("SELECT k0, k1, %s AS value, %s %s WHERE v BETWEEN 0 AND %d AND c > 0 GROUP BY k1, k0, value ORDER BY k1, k0, value",
			sql(q.d.ToUint, "v"), sql(q.d.Saturated, "c"), q.d.Arrays(lists, [2]string{"all_values", "v"}, [2]string{"all_counts", "c"}), answer.SizeMost)
		if err := q.Read(ctx, sizes, nil, answer.Each(q.ReadSizes(of))); err != nil {
			return err
		}
	}
	return nil
}

func (q *routerReader) askBreaks(ctx context.Context) error {
	breaks := fmt.Sprintf(`SELECT * FROM (SELECT %s AS begun, %s AS length, %s AS k2, %s AS k3, %s AS k4
		FROM %s WHERE %s ORDER BY length DESC LIMIT %d) ORDER BY begun`,
		q.d.TimeNs, sql(q.d.Number, "length_ns"), q.d.Text("cause"), q.d.Text("task"), sql(q.d.ToUint, "ifNull(depth, 0)"), q.Table(measure.RouterBreaks.Name), q.where(q.Answer.Session), q.Question.Breaks)
	return q.Read(ctx, breaks, nil, answer.Each(q.ReadBreak))
}
