package duckdb

import (
	"context"
	"fmt"
	"strings"

	"pillion.dev/archive"
	"pillion.dev/archive/answer"
	"pillion.dev/measure"
	"pillion.dev/measure/flows"
)

// middle is that of a row's interval, ns since 1970.
var middle = fmt.Sprintf("(epoch_ns(time) - greatest(0, least(coalesce(interval_ns, 0), %d)) // 2)", int64(flows.IntervalMax))

// terms are the WHERE terms of a selection except its session.
func terms(s archive.Selection) (list []string, arguments []any) {
	for _, equal := range []struct{ column, value string }{
		{"source", s.Source}, {archive.AgentColumn, s.Destination}, {"src", s.Src}, {"dst", s.Dst}, {"proto", s.Proto},
	} {
		if equal.value != "" {
			list, arguments = append(list, quoted(equal.column)+" = ?"), append(arguments, equal.value)
		}
	}
	for _, equal := range []struct {
		column string
		value  uint32
	}{{"sport", s.Sport}, {"dport", s.Dport}} {
		if equal.value != 0 {
			list, arguments = append(list, quoted(equal.column)+" = ?"), append(arguments, equal.value)
		}
	}
	if term, more := scoped(&measure.Flows, s.Scope); term != "" {
		list, arguments = append(list, term), append(arguments, more...)
	}
	return list, arguments
}

// within are terms of rows whose middle is in the range. The first two are what the
// zone maps of the table understand.
func within(s *answer.Survey) (list []string, arguments []any) {
	list, arguments = terms(s.Selection)
	list = append(list, "time >= ?", "time < ?", middle+" >= ?", middle+" < ?")
	return list, append(arguments, s.From, s.End(), s.From.UnixNano(), s.To.UnixNano())
}

// where is the condition that selects the rows.
func where(s *answer.Survey) (sql string, arguments []any) {
	list, arguments := within(s)
	if s.Selection.Session != "" {
		return strings.Join(append(list, "session = ?"), " AND "), append(arguments, s.Selection.Session)
	}
	var sources, agents, sessions []string
	for pair, session := range s.Elected {
		sources, agents, sessions = append(sources, pair.Source), append(agents, pair.Destination), append(sessions, session)
	}
	if len(sessions) < 2 {
		return strings.Join(append(list, "coalesce(session, '') = ?"), " AND "), append(arguments, strings.Join(sessions, ""))
	}
	return strings.Join(append(list, `(coalesce(source, ''), agent, coalesce(session, '')) IN (
		SELECT (unnest(?), unnest(?), unnest(?)))`), " AND "), append(arguments, sources, agents, sessions)
}

// look reads the sessions and intervals of a selection's rows.
func (c *connection) look(ctx context.Context, s *answer.Survey) error {
	list, arguments := within(s)
	sql := fmt.Sprintf(`SELECT coalesce(source, '') AS source, agent, coalesce(session, '') AS session,
		((greatest(0, least(coalesce(interval_ns, 0), %d)) * 9 // 10 + %d) // %d)::BIGINT AS units,
		count(*) AS n, coalesce(sum(packets), 0)::DOUBLE AS packets, count(*) AS parts FROM %s WHERE %s GROUP BY ALL`,
		int64(flows.IntervalMax), int64(answer.Unit-1), int64(answer.Unit), tableOf(measure.Flows.Name), strings.Join(list, " AND "))
	return c.query(ctx, sql, arguments, answer.Each(s.Read))
}
