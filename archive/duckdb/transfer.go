package duckdb

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"pillion.dev/archive"
	"pillion.dev/archive/answer"
	"pillion.dev/archive/ledger"
	"pillion.dev/archive/transfer"
)

const (
	// rangeRows are sorted at once: minutes of arrival are put together up to this many rows.
	rangeRows = 500_000
	dayNs     = int64(24 * time.Hour)
)

var _ transfer.Source = (*Archive)(nil)

// Deliveries implements transfer.Source.
func (a *Archive) Deliveries() map[ledger.Sender]*ledger.Delivery { return a.book.All() }

// Shapes implements transfer.Source.
func (a *Archive) Shapes() map[string]map[string]int {
	a.cache.Lock()
	defer a.cache.Unlock()
	all := map[string]map[string]int{}
	for agent, streams := range a.catalog.Shapes {
		all[agent] = maps.Clone(streams)
	}
	return all
}

// Agents implements transfer.Source.
func (a *Archive) Agents(ctx context.Context, stream string) (agents []string, err error) {
	if _, err := a.known(stream); err != nil {
		return nil, err
	}
	err = a.reader(ctx, 0, func(ctx context.Context, c *connection) error {
		return c.query(ctx, fmt.Sprintf("SELECT DISTINCT %s FROM %s ORDER BY 1", quoted(archive.AgentColumn), tableOf(stream)), nil,
			answer.Each(func(r answer.Row) { agents = append(agents, strings.Clone(r.Text(0))) }))
	})
	return agents, err
}

// ofAgents is a condition on the agent, if some are given.
func ofAgents(agents []string, arguments ...any) (string, []any) {
	if agents == nil {
		return "true", arguments
	}
	return quoted(archive.AgentColumn) + " IN (SELECT unnest(CAST(? AS VARCHAR[])))", append(arguments, agents)
}

// Ranges implements transfer.Source.
func (a *Archive) Ranges(ctx context.Context, stream string, agents []string, from int64) (ranges []transfer.Range, err error) {
	if _, err = a.known(stream); err != nil {
		return nil, err
	}
	some, arguments := ofAgents(agents, from)
	minute := int64(time.Minute)
	sql := fmt.Sprintf("SELECT epoch_ns(%[1]s) - ((epoch_ns(%[1]s) %% %[2]d) + %[2]d) %% %[2]d AS minute, count(*) FROM %[3]s WHERE epoch_ns(%[1]s) >= ? AND %[4]s GROUP BY ALL ORDER BY minute",
		quoted(archive.ArrivalColumn), minute, tableOf(stream), some)
	err = a.reader(ctx, 0, func(ctx context.Context, c *connection) error {
		return c.query(ctx, sql, arguments, answer.Each(func(r answer.Row) {
			one := transfer.Range{From: r.Int(0), To: r.Int(0) + minute, Rows: r.Int(1)}
			if n := len(ranges); n > 0 && ranges[n-1].Rows+one.Rows <= rangeRows && dayOf(ranges[n-1].From) == dayOf(one.From) {
				ranges[n-1].To, ranges[n-1].Rows = one.To, ranges[n-1].Rows+one.Rows
				return
			}
			ranges = append(ranges, one)
		}))
	})
	if len(ranges) > 0 {
		ranges[0].From = max(ranges[0].From, from)
	}
	return ranges, err
}

// dayOf is the number of the day of a time.
func dayOf(ns int64) int64 {
	if ns < 0 {
		return (ns+1)/dayNs - 1
	}
	return ns / dayNs
}

// ByArrival implements transfer.Source. Rows of one commit are in the order in which they lie.
func (a *Archive) ByArrival(ctx context.Context, stream string, agents []string, of transfer.Range, rows func(arrow.RecordBatch) error) error {
	s, err := a.known(stream)
	if err != nil {
		return err
	}
	columns := []string{archive.AgentColumn}
	for _, f := range s.Fields {
		if f.Name != archive.ArrivalColumn {
			columns = append(columns, f.Name)
		}
	}
	some, arguments := ofAgents(agents, time.Unix(0, of.From), time.Unix(0, of.To))
	rest := fmt.Sprintf("%[1]s >= ? AND %[1]s < ? AND %[2]s ORDER BY %[1]s, rowid", quoted(archive.ArrivalColumn), some)
	return a.rowsOf(ctx, s, append(columns, archive.ArrivalColumn), rest, arguments, rows)
}
