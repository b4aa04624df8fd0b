package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"pillion.dev/archive"
	"pillion.dev/archive/answer"
	"pillion.dev/measure"
	"pillion.dev/measure/flows"
)

// flowKeys are the columns of a flow by granularity, with what stands for those that
// are put together.
var flowKeys = map[string][]string{
	"flow":      {text("src"), text("dst"), text("proto"), port("sport"), port("dport")},
	"host-port": {text("src"), text("dst"), text("proto"), "toInt64(0)", port("dport")},
	"pair":      {text("source"), "toString(agent)", "''", "toInt64(0)", "toInt64(0)"},
	"host":      {text("src"), text("dst"), "''", "toInt64(0)", "toInt64(0)"},
}

func text(column string) string { return "toString(ifNull(" + column + ", ''))" }

// port reads a column whose type an agent can have widened.
func port(column string) string { return "toInt64(ifNull(" + column + ", 0))" }

// flowNames are those of the keys.
const flowNames = "k0, k1, k2, k3, k4"

// flowText is the text that a search matches.
const flowText = `lowerUTF8(concat(
	multiIf(k3 = 0, k0, position(k0, ':') > 0, concat('[', k0, ']:', toString(k3)), concat(k0, ':', toString(k3))), ' > ',
	multiIf(k4 = 0, k1, position(k1, ':') > 0, concat('[', k1, ']:', toString(k4)), concat(k1, ':', toString(k4))), ' ', k2))`

// flowOrders are the SQL of orders that need no histogram, null for flows without a value.
var flowOrders = map[string]string{
	"packets": counted("packets"), "bytes": counted("bytes"),
	"lost": "if(" + saturated("expected") + " = 0, NULL, sum(toFloat64(ifNull(lost, 0))) / sum(toFloat64(ifNull(expected, 0))))",
	"max":  "maxIf(delay_max_ns, " + measured("delay") + ")", "last": "max(time)",
}

// counted is null if no row has a value.
func counted(column string) string {
	return "if(count(" + column + ") = 0, NULL, " + saturated(column) + ")"
}

// Flows implements archive.Archive.
func (a *Archive) Flows(ctx context.Context, question archive.Flows) (archive.FlowsAnswer, error) {
	f, err := answer.NewFlows(question)
	if err != nil {
		return archive.FlowsAnswer{}, err
	}
	if _, err := a.schema(ctx, measure.Flows.Name); errors.Is(err, archive.ErrUnknown) {
		return f.Answer(), nil
	} else if err != nil {
		return archive.FlowsAnswer{}, err
	}
	if err := a.look(ctx, &f.Survey); err != nil {
		return archive.FlowsAnswer{}, err
	}
	if f.Elect(); f.Rows > 0 {
		if err := a.readFlows(ctx, f); err != nil {
			return archive.FlowsAnswer{}, err
		}
	}
	return f.Answer(), nil
}

func (a *Archive) readFlows(ctx context.Context, f *answer.Flows) error {
	keys := flowKeys[f.Question.Granularity]
	named := make([]string, len(keys))
	for i, key := range keys {
		named[i] = fmt.Sprintf("%s AS k%d", key, i)
	}
	from := fmt.Sprintf("FROM %s WHERE %s", a.table(measure.Flows.Name), where(&f.Survey))
	group := from + " GROUP BY " + flowNames
	if f.Question.Search != "" {
		group += " HAVING position(" + flowText + ", lowerUTF8(" + literal(f.Question.Search) + ")) > 0"
	}
	direction := "ASC"
	if f.Descending {
		direction = "DESC"
	}
	order := fmt.Sprintf("ORDER BY isNull(ranking), ranking %s, %s LIMIT %d", direction, flowNames, f.Limit)
	ranking := flowOrders[f.Order] + " AS ranking"
	sql := fmt.Sprintf("SELECT toInt64(0) AS place, %s, min(time - %s) AS begun, max(time) AS last, %s, %s, toInt64(0) AS found %s %s",
		strings.Join(named, ", "), interval, ranking, sums, group, order)
	if err := a.read(ctx, sql, nil, answer.Each(f.ReadSum)); err != nil {
		return err
	}
	f.Found = int64(f.Read())
	if f.Read() == f.Limit {
		sql := fmt.Sprintf("SELECT toInt64(count()) FROM (SELECT %s %s)", strings.Join(named, ", "), group)
		if err := a.read(ctx, sql, nil, answer.Each(func(r answer.Row) { f.Found = r.Int(0) })); err != nil {
			return err
		}
	}
	if f.Found > int64(f.Limit) || f.Question.Search != "" {
		from += fmt.Sprintf(" AND (%s) GLOBAL IN (SELECT %s FROM (SELECT %s, %s %s %s))", strings.Join(keys, ", "), flowNames, strings.Join(named, ", "), ranking, group, order)
	}
	places := f.Places()
	return a.readHistograms(ctx, keys, from, f.Every(), func(r answer.Row) *flows.Sum {
		place, known := places[answer.FlowOf(r, 0)]
		if !known {
			return nil
		}
		return f.Find(place)
	})
}
