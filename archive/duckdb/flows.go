package duckdb

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"pillion.dev/archive"
	"pillion.dev/measure"
	"pillion.dev/measure/histogram"
)

const (
	flowsMost = 10_000
	// candidates are the flows with most packets among which the largest quantiles
	// are looked for: each needs its histogram.
	candidates = 50_000
)

// flowKeys are the columns of a flow by granularity, with what stands for those that
// are put together.
var flowKeys = map[string]string{
	"flow":      "coalesce(src, '') AS k0, coalesce(dst, '') AS k1, coalesce(proto, '') AS k2, " + port("sport") + " AS k3, " + port("dport") + " AS k4",
	"host-port": "coalesce(src, '') AS k0, coalesce(dst, '') AS k1, coalesce(proto, '') AS k2, 0::BIGINT AS k3, " + port("dport") + " AS k4",
	"host":      "coalesce(src, '') AS k0, coalesce(dst, '') AS k1, '' AS k2, 0::BIGINT AS k3, 0::BIGINT AS k4",
}

// port is a column that an agent can have made wider.
func port(column string) string { return "coalesce(try_cast(" + column + " AS BIGINT), 0)" }

// flowText is what a search looks through.
const flowText = `lower(CASE WHEN k3 = 0 THEN k0 WHEN contains(k0, ':') THEN '[' || k0 || ']:' || k3 ELSE k0 || ':' || k3 END || ' > ' ||
	CASE WHEN k4 = 0 THEN k1 WHEN contains(k1, ':') THEN '[' || k1 || ']:' || k4 ELSE k1 || ':' || k4 END || ' ' || k2)`

// flowOrders are the SQL of orders that need no histogram; sums names the columns.
var flowOrders = map[string]string{
	"packets": "s0", "bytes": "s1", "lost": "s3::DOUBLE / nullif(s2, 0)", "max": "s13", "last": "last",
}

// quantileOrders are the others.
var quantileOrders = map[string]func(*archive.Flow) float64{
	"p50": func(f *archive.Flow) float64 { return f.Delay.P50 },
	"p90": func(f *archive.Flow) float64 { return f.Delay.P90 },
	"p99": func(f *archive.Flow) float64 { return f.Delay.P99 },
}

// Flows implements archive.Archive. Ordered by a quantile, flows are those with most
// packets, at most 50,000. What cannot be compared comes last either way.
func (a *Archive) Flows(ctx context.Context, question archive.Flows) (archive.FlowsAnswer, error) {
	_, known := flowOrders[question.Order]
	_, quantile := quantileOrders[question.Order]
	if !question.From.Before(question.To) || flowKeys[question.Granularity] == "" || !known && !quantile ||
		question.Limit < 1 || question.Limit > flowsMost {
		return archive.FlowsAnswer{}, fmt.Errorf("%w: flows want a range of time, a granularity, an order and a limit of 1 to %d", archive.ErrQuery, flowsMost)
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
	for i := range f.flows {
		if flow := &f.flows[i]; f.quantiles[i] != 1 && !flow.Buckets.Empty() {
			flow.Delay.Spread(&flow.Buckets)
		}
		f.flows[i].Buckets = histogram.Histogram{}
	}
	answer.Found, answer.Sampled = f.found, max(f.every, 1)
	answer.Flows = f.flows
	if quantile {
		f.sort(quantileOrders[question.Order])
		answer.Flows = f.flows[:min(len(f.flows), question.Limit)]
	}
	return answer, nil
}

// flowReader builds flows in their order: first all but the histograms, then these.
type flowReader struct {
	question    archive.Flows
	flows       []archive.Flow
	quantiles   []int64 // rows with quantiles of their own
	rows, found int64
	every       int64
}

// groups is the SQL of flows with a place each.
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
	sql = fmt.Sprintf(`SELECT row_number() OVER (ORDER BY %[1]s %[2]s NULLS LAST, k0, k1, k2, k3, k4)::BIGINT - 1 AS place, *,
			count(*) OVER () AS found FROM (
		SELECT %[3]s, min(epoch_ns(time) - greatest(0, least(coalesce(interval_ns, 0), %[4]d))) AS begun, max(epoch_ns(time)) AS last, %[5]s
		FROM %[6]s WHERE %[7]s GROUP BY k0, k1, k2, k3, k4) WHERE %[8]s QUALIFY place < %[9]d`,
		order, direction, flowKeys[f.question.Granularity], int64(archive.IntervalMax), sums,
		tableOf(measure.Flows.Name), where, search, limit)
	return sql, arguments
}

func (f *flowReader) ask(ctx context.Context, c *connection, s *survey) error {
	groups, arguments := f.groups(s)
	if err := c.query(ctx, "SELECT * FROM ("+groups+") ORDER BY place", arguments, f.read); err != nil {
		return err
	}
	f.every = every(f.rows, f.question.Sample)
	where, more := s.where()
	sql := fmt.Sprintf(`WITH groups AS (%s), kept AS (
		SELECT %s, delay_bounds_ns, delay_counts FROM %s WHERE %s AND %s), buckets AS (
		SELECT place, unnest(delay_bounds_ns) AS bound, unnest(delay_counts) AS n FROM kept JOIN groups USING (k0, k1, k2, k3, k4) WHERE s22 > 1)
		SELECT place, bound, sum(n)::DOUBLE FROM buckets WHERE bound IS NOT NULL AND n > 0 GROUP BY place, bound ORDER BY place, bound`,
		groups, flowKeys[f.question.Granularity], tableOf(measure.Flows.Name), where, thinned("time, src, dst, sport, dport", f.every))
	return c.query(ctx, sql, append(arguments, more...), f.readBuckets)
}

func (f *flowReader) read(r arrow.RecordBatch) error {
	sport, dport := r.Column(4).(*array.Int64), r.Column(5).(*array.Int64)
	begun, last := r.Column(6).(*array.Int64), r.Column(7).(*array.Int64)
	found := r.Column(8 + sumColumns).(*array.Int64)
	for i := range int(r.NumRows()) {
		reader := sumReader{r, 8}
		window, quantiles, rows := reader.window(i)
		window.Start = time.Unix(0, begun.Value(i)).UTC()
		f.flows = append(f.flows, archive.Flow{
			Src: textAt(r, 1, i), Dst: textAt(r, 2, i), Proto: textAt(r, 3, i),
			Sport: portOf(sport.Value(i)), Dport: portOf(dport.Value(i)),
			Window: window, Last: time.Unix(0, last.Value(i)).UTC(),
		})
		f.quantiles = append(f.quantiles, quantiles)
		f.rows += rows
		f.found = found.Value(i)
	}
	return nil
}

func portOf(n int64) uint32 { return uint32(max(0, min(n, math.MaxUint32))) }

func (f *flowReader) readBuckets(r arrow.RecordBatch) error {
	places, bounds, counts := r.Column(0).(*array.Int64), r.Column(1).(*array.Int64), r.Column(2).(*array.Float64)
	for i := range int(r.NumRows()) {
		if place := places.Value(i); place < int64(len(f.flows)) {
			f.flows[place].Buckets.AddBucket(bounds.Value(i), countOf(counts.Value(i)))
		}
	}
	return nil
}

// sort puts NaN last.
func (f *flowReader) sort(by func(*archive.Flow) float64) {
	slices.SortStableFunc(f.flows, func(a, b archive.Flow) int {
		x, y := by(&a), by(&b)
		switch {
		case math.IsNaN(x) || math.IsNaN(y):
			return cmp.Compare(boolean(math.IsNaN(x)), boolean(math.IsNaN(y)))
		case f.question.Ascending:
			return cmp.Compare(x, y)
		}
		return cmp.Compare(y, x)
	})
}

func boolean(b bool) int {
	if b {
		return 1
	}
	return 0
}
