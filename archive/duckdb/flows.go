package duckdb

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"pillion.dev/archive"
	"pillion.dev/measure"
	"pillion.dev/measure/flows"
)

const (
	flowsMost = 10_000
	// candidates limits the flows, those with most packets, that are ordered by a
	// quantile: each needs its histogram.
	candidates = 50_000
)

// flowKeys are the columns of a flow by granularity, with what stands for those that
// are put together.
var flowKeys = map[string]string{
	"flow":      "coalesce(src, '') AS k0, coalesce(dst, '') AS k1, coalesce(proto, '') AS k2, " + port("sport") + " AS k3, " + port("dport") + " AS k4",
	"host-port": "coalesce(src, '') AS k0, coalesce(dst, '') AS k1, coalesce(proto, '') AS k2, 0::BIGINT AS k3, " + port("dport") + " AS k4",
	"pair":      "coalesce(source, '') AS k0, agent AS k1, '' AS k2, 0::BIGINT AS k3, 0::BIGINT AS k4",
	"host":      "coalesce(src, '') AS k0, coalesce(dst, '') AS k1, '' AS k2, 0::BIGINT AS k3, 0::BIGINT AS k4",
}

// port reads a column whose type an agent can have widened.
func port(column string) string { return "coalesce(try_cast(" + column + " AS BIGINT), 0)" }

// flowText is the text that a search matches.
const flowText = `lower(CASE WHEN k3 = 0 THEN k0 WHEN contains(k0, ':') THEN '[' || k0 || ']:' || k3 ELSE k0 || ':' || k3 END || ' > ' ||
	CASE WHEN k4 = 0 THEN k1 WHEN contains(k1, ':') THEN '[' || k1 || ']:' || k4 ELSE k1 || ':' || k4 END || ' ' || k2)`

// flowOrders are the SQL of orders that need no histogram.
var flowOrders = map[string]string{
	"packets": "sum(packets)", "bytes": "sum(bytes)", "lost": "sum(lost)::DOUBLE / nullif(sum(expected), 0)",
	"max": "max(delay_max_ns) FILTER (" + measured("delay") + ")", "last": "max(epoch_ns(time))",
}

// quantileOrders are the orders that need histograms.
var quantileOrders = map[string]float64{"p50": 0.5, "p90": 0.9, "p99": 0.99}

// Flows implements archive.Archive. Ordered by a quantile, flows are those with most
// packets, at most 50,000. Flows without a value come last in both directions.
func (a *Archive) Flows(ctx context.Context, question archive.Flows) (archive.FlowsAnswer, error) {
	_, known := flowOrders[question.Order]
	quantile, ordered := quantileOrders[question.Order]
	if !question.From.Before(question.To) || flowKeys[question.Granularity] == "" || !known && !ordered ||
		question.Limit < 1 || question.Limit > flowsMost {
		return archive.FlowsAnswer{}, fmt.Errorf("%w: flows require a time range, a granularity, an order and a limit of 1 to %d", archive.ErrQuery, flowsMost)
	}
	answer := archive.FlowsAnswer{Sampled: 1}
	if _, err := a.known(measure.Flows.Name); errors.Is(err, archive.ErrUnknown) {
		return answer, nil
	}
	s := &survey{selection: question.Selection, from: question.From, to: question.To}
	f := &flowReader{question: question}
	err := a.reader(ctx, 0, func(ctx context.Context, c *connection) error {
		if err := s.look(ctx, c); err != nil || s.rows == 0 {
			return err
		}
		return f.ask(ctx, c, s)
	})
	if err != nil {
		return archive.FlowsAnswer{}, err
	}
	answer.Found, answer.Sampled = f.found, max(f.every, 1)
	answer.Flows = f.flows
	if ordered {
		f.sort(quantile)
		answer.Flows = f.flows[:min(len(f.flows), question.Limit)]
	}
	return answer, nil
}

// flowReader reads flows in their order: first the sums, then the histograms.
type flowReader struct {
	question    archive.Flows
	flows       []archive.Flow
	rows, found int64
	every       int64
}

// groups is the SQL of flows with their places in the order.
func (f *flowReader) groups(s *survey) (sql string, arguments []any) {
	where, arguments := s.where()
	search := "true"
	if f.question.Search != "" {
		search = "contains(" + flowText + ", lower(?))"
		arguments = append(arguments, f.question.Search)
	}
	order, direction, limit := flowOrders[f.question.Order], "DESC", f.question.Limit
	switch {
	case order == "":
		order, limit = flowOrders["packets"], candidates
	case f.question.Ascending:
		direction = "ASC"
	}
	sql = fmt.Sprintf(`SELECT row_number() OVER (ORDER BY ranking %[2]s NULLS LAST, k0, k1, k2, k3, k4)::BIGINT - 1 AS place, *,
			count(*) OVER () AS found FROM (
		SELECT %[3]s, min(epoch_ns(time) - greatest(0, least(coalesce(interval_ns, 0), %[4]d))) AS begun, max(epoch_ns(time)) AS last, %[1]s AS ranking, %[5]s
		FROM %[6]s WHERE %[7]s GROUP BY k0, k1, k2, k3, k4) WHERE %[8]s QUALIFY place < %[9]d`,
		order, direction, flowKeys[f.question.Granularity], int64(flows.IntervalMax), sums,
		tableOf(measure.Flows.Name), where, search, limit)
	return sql, arguments
}

func (f *flowReader) ask(ctx context.Context, c *connection, s *survey) error {
	groups, arguments := f.groups(s)
	if err := c.query(ctx, "SELECT * FROM ("+groups+") ORDER BY place", arguments, each(f.read)); err != nil {
		return err
	}
	f.every = every(f.rows, f.question.Sample)
	where, more := s.where()
	from := fmt.Sprintf(`FROM (SELECT %s, rowid, * FROM %s WHERE %s) JOIN (SELECT place, k0, k1, k2, k3, k4 FROM (%s)) USING (k0, k1, k2, k3, k4) WHERE true`,
		flowKeys[f.question.Granularity], tableOf(measure.Flows.Name), where, groups)
	return c.askHistograms(ctx, "place", from, slices.Concat(more, arguments), f.every, func(place int64) *flows.Sum {
		if place < int64(len(f.flows)) {
			return &f.flows[place].Sum
		}
		return nil
	})
}

func (f *flowReader) read(r resultRow) {
	sum, rows := r.sum(9)
	f.flows = append(f.flows, archive.Flow{
		Flow:   flows.Flow{Src: r.text(1), Dst: r.text(2), Proto: r.text(3), Sport: portOf(r.int(4)), Dport: portOf(r.int(5))},
		Window: archive.Window{Start: time.Unix(0, r.int(6)).UTC(), Sum: sum},
		Last:   time.Unix(0, r.int(7)).UTC(),
	})
	f.rows += rows
	f.found = r.int(int(r.NumCols()) - 1)
}

func portOf(n int64) uint32 { return uint32(max(0, min(n, math.MaxUint32))) }

// sort orders by a quantile, NaN last.
func (f *flowReader) sort(q float64) {
	by := make(map[flows.Flow]float64, len(f.flows))
	for i := range f.flows {
		by[f.flows[i].Flow] = f.flows[i].Delay.Quantile(q)
	}
	slices.SortStableFunc(f.flows, func(a, b archive.Flow) int {
		x, y := by[a.Flow], by[b.Flow]
		if math.IsNaN(x) || math.IsNaN(y) || !f.question.Ascending {
			x, y = y, x // NaN compares as least
		}
		return cmp.Compare(x, y)
	})
}
