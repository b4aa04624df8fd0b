package clickhouse

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"pillion.dev/archive"
	"pillion.dev/archive/answer"
	"pillion.dev/measure"
	"pillion.dev/measure/flows"
)

// interval of a row in its bounds, and the middle of that, ns.
var (
	interval = fmt.Sprintf("greatest(toInt64(0), least(toInt64(ifNull(interval_ns, 0)), toInt64(%d)))", int64(flows.IntervalMax))
	middle   = "(time - intDiv(" + interval + ", 2))"
)

// Texts that can be null, as the empty text.
const (
	sourceText  = "ifNull(source, '')"
	sessionText = "ifNull(session, '')"
)

// terms are the WHERE terms of a selection except its session.
func terms(s archive.Selection) (list []string) {
	for _, equal := range []struct{ column, value string }{
		{sourceText, s.Source}, {archive.AgentColumn, s.Destination}, {"src", s.Src}, {"dst", s.Dst}, {"proto", s.Proto},
	} {
		if equal.value != "" {
			list = append(list, equal.column+" = "+literal(equal.value))
		}
	}
	for _, equal := range []struct {
		column string
		value  uint32
	}{{"sport", s.Sport}, {"dport", s.Dport}} {
		if equal.value != 0 {
			list = append(list, fmt.Sprintf("%s = %d", equal.column, equal.value))
		}
	}
	return list
}

// integer is a number in SQL: a literal of 2^63 or less than zero has a type of its own.
func integer(n int64) string { return "toInt64(" + strconv.FormatInt(n, 10) + ")" }

// hour is the first column of every table's primary key.
const hour = "intDiv(time, 3600000000000)"

// since and until are terms of a range of time. The first of each is what the primary key
// understands.
func since(t time.Time) []string {
	n := t.UnixNano()
	return []string{hour + " >= " + integer(n/int64(time.Hour)), "time >= " + integer(n)}
}

func until(t time.Time) []string {
	n := t.UnixNano()
	return []string{hour + " <= " + integer(n/int64(time.Hour)), "time < " + integer(n)}
}

// within are terms of rows whose middle is in the range.
func within(s *answer.Survey) []string {
	list := slices.Concat(terms(s.Selection), since(s.From), until(s.End()))
	return append(list, middle+" >= "+integer(s.From.UnixNano()), middle+" < "+integer(s.To.UnixNano()))
}

// where is the condition that selects the rows.
func where(s *answer.Survey) string {
	list := within(s)
	if s.Selection.Session != "" {
		return strings.Join(append(list, "session = "+literal(s.Selection.Session)), " AND ")
	}
	one, all := "", []string{}
	for pair, session := range s.Elected {
		one = session
		all = append(all, "("+literal(pair.Source)+", "+literal(pair.Destination)+", "+literal(session)+")")
	}
	if len(all) < 2 {
		return strings.Join(append(list, sessionText+" = "+literal(one)), " AND ")
	}
	slices.Sort(all)
	return strings.Join(append(list, "("+sourceText+", agent, "+sessionText+") IN ("+strings.Join(all, ", ")+")"), " AND ")
}

// look reads the sessions and intervals of a selection's rows.
func (a *Archive) look(ctx context.Context, s *answer.Survey) error {
	sql := fmt.Sprintf(`SELECT toString(%s) AS k0, toString(agent) AS k1, toString(%s) AS k2,
		intDiv(intDiv(%s * 9, 10) + %d, %d) AS units, toInt64(count()) AS n, sum(toFloat64(ifNull(packets, 0))) AS total
		FROM %s WHERE %s GROUP BY k0, k1, k2, units`,
		sourceText, sessionText, interval, int64(answer.Unit-1), int64(answer.Unit), a.table(measure.Flows.Name), strings.Join(within(s), " AND "))
	return a.read(ctx, sql, nil, answer.Each(s.Read))
}
