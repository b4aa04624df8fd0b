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

// flowKeys are the columns of a flow by granularity, with what stands for those that
// are put together.
var flowKeys = map[string]string{
	"flow":      "coalesce(src, '') AS k0, coalesce(dst, '') AS k1, coalesce(proto, '') AS k2, " + port("sport") + " AS k3, " + port("dport") + " AS k4",
	"host-port": "coalesce(src, '') AS k0, coalesce(dst, '') AS k1, coalesce(proto, '') AS k2, 0::BIGINT AS k3, " + port("dport") + " AS k4",
	"pair":      "coalesce(source, '') AS k0, agent AS k1, '' AS k2, 0::BIGINT AS k3, 0::BIGINT AS k4",
	"host":      "coalesce(src, '') AS k0, coalesce(dst, '') AS k1, '' AS k2, 0::BIGINT AS k3, 0::BIGINT AS k4",

	"protocol":      "coalesce(source, '') AS k0, agent AS k1, coalesce(proto, '') AS k2, 0::BIGINT AS k3, 0::BIGINT AS k4",
	"host-protocol": "coalesce(src, '') AS k0, coalesce(dst, '') AS k1, coalesce(proto, '') AS k2, 0::BIGINT AS k3, 0::BIGINT AS k4",
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

// Flows implements archive.Archive.
func (a *Archive) Flows(ctx context.Context, question archive.Flows) (archive.FlowsAnswer, error) {
	f, err := answer.NewFlows(question)
	if err != nil {
		return archive.FlowsAnswer{}, err
	}
	if _, err := a.known(measure.Flows.Name); errors.Is(err, archive.ErrUnknown) {
		return f.Answer(), nil
	}
	err = a.reader(ctx, 0, func(ctx context.Context, c *connection) error {
		if err := c.look(ctx, &f.Survey); err != nil {
			return err
		}
		if f.Elect(); f.Rows == 0 {
			return nil
		}
		return c.askFlows(ctx, f)
	})
	if err != nil {
		return archive.FlowsAnswer{}, err
	}
	return f.Answer(), nil
}

// groups is the SQL of flows with their places in the order.
func groups(f *answer.Flows) (sql string, arguments []any) {
	where, arguments := where(&f.Survey)
	search := "true"
	if f.Question.Search != "" {
		search = "(contains(" + flowText + ", lower(?))"
		arguments = append(arguments, f.Question.Search)
		for i, addresses := range [][]string{f.Question.SearchSrc, f.Question.SearchDst} {
			if len(addresses) > 0 {
				search += fmt.Sprintf(" OR k%d IN (?%s)", i, strings.Repeat(", ?", len(addresses)-1))
			}
			for _, address := range addresses {
				arguments = append(arguments, address)
			}
		}
		search += ")"
	}
	direction := "ASC"
	if f.Descending {
		direction = "DESC"
	}
	sql = fmt.Sprintf(`SELECT row_number() OVER (ORDER BY ranking %[2]s NULLS LAST, k0, k1, k2, k3, k4)::BIGINT - 1 AS place, *,
			count(*) OVER () AS found FROM (
		SELECT %[3]s, min(epoch_ns(time) - greatest(0, least(coalesce(interval_ns, 0), %[4]d))) AS begun, max(epoch_ns(time)) AS last, %[1]s AS ranking, %[5]s
		FROM %[6]s WHERE %[7]s GROUP BY k0, k1, k2, k3, k4) WHERE %[8]s QUALIFY place < %[9]d`,
		flowOrders[f.Order], direction, flowKeys[f.Question.Granularity], int64(flows.IntervalMax), sums,
		tableOf(measure.Flows.Name), where, search, f.Limit)
	return sql, arguments
}

func (c *connection) askFlows(ctx context.Context, f *answer.Flows) error {
	groups, arguments := groups(f)
	if err := c.query(ctx, "SELECT * FROM ("+groups+") ORDER BY place", arguments, answer.Each(f.ReadSum)); err != nil {
		return err
	}
	where, more := where(&f.Survey)
	from := fmt.Sprintf(`FROM (SELECT %s, rowid, * FROM %s WHERE %s) JOIN (SELECT place, k0, k1, k2, k3, k4 FROM (%s)) USING (k0, k1, k2, k3, k4) WHERE true`,
		flowKeys[f.Question.Granularity], tableOf(measure.Flows.Name), where, groups)
	return c.askHistograms(ctx, "place", from, slices.Concat(more, arguments), f.Every(), f.Find)
}
