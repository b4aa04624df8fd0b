package clickhouse

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

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
	if term := scoped(&measure.Flows, s.Scope); term != "" {
		list = append(list, term)
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

// selected are the terms of a selection, without those of time: before the election any
// session counts. aligned: the range was extended to whole windows after the election.
func selected(s *answer.Survey, aligned bool) []string {
	list := terms(s.Selection)
	switch {
	case s.Elected == nil:
		return list
	case s.Selection.Session != "":
		return append(list, "session = "+literal(s.Selection.Session))
	case aligned && len(s.Elected) > 1:
		return append(list, sessionIn(s.Elected))
	}
	return append(list, elected(s.Elected))
}

// sessionIn is the term of the sessions that pairs elected. Of other pairs no session counts.
func sessionIn(sessions map[answer.Pair]string) string {
	var all []string
	for pair, session := range sessions {
		all = append(all, "("+literal(pair.Source)+", "+literal(pair.Destination)+", "+literal(session)+")")
	}
	slices.Sort(all)
	return "(" + sourceText + ", agent, " + sessionText + ") IN (" + strings.Join(all, ", ") + ")"
}

// elected is the same where other pairs have no rows: most pairs are not named, but their session
// is, and a statement with a few names takes less time.
func elected(sessions map[answer.Pair]string) string {
	counts, common := map[string]int{}, ""
	for _, session := range sessions {
		counts[session]++
	}
	for _, session := range slices.Sorted(maps.Keys(counts)) {
		if counts[session] > counts[common] {
			common = session
		}
	}
	term := sessionText + " = " + literal(common)
	others := map[answer.Pair]string{}
	var pairs []string
	for pair, session := range sessions {
		if session != common {
			others[pair] = session
			pairs = append(pairs, "("+literal(pair.Source)+", "+literal(pair.Destination)+")")
		}
	}
	if len(others) == 0 {
		return term
	}
	slices.Sort(pairs)
	return fmt.Sprintf("(%s AND (%s, agent) NOT IN (%s) OR %s)", term, sourceText, strings.Join(pairs, ", "), sessionIn(others))
}

// survey plans where the rows of a selection are read, and looks at them.
func (a *Archive) survey(ctx context.Context, s *answer.Survey) (*plan, error) {
	p, err := a.plan(ctx, s)
	if err != nil {
		return nil, err
	}
	return p, a.look(ctx, s, p)
}

// look reads the sessions and intervals of a selection's rows. To look for rows that are not rolled
// up takes a while among many: later questions look where there are any.
func (a *Archive) look(ctx context.Context, s *answer.Survey, plan *plan) error {
	var turn sync.Mutex
	group, ctx := errgroup.WithContext(ctx)
	read := func(from source, each func(answer.Row)) {
		if len(from) > 0 {
			group.Go(func() error {
				return a.read(ctx, surveySQL(from), nil, answer.Each(func(r answer.Row) {
					turn.Lock()
					defer turn.Unlock()
					each(r)
				}))
			})
		}
	}
	var rest, others source
	for _, one := range plan.source(s, 0) {
		if one.rest {
			rest = append(rest, one)
		} else {
			others = append(others, one)
		}
	}
	plan.left.from, plan.left.to = math.MaxInt64, math.MinInt64
	read(others, s.Read)
	read(rest, func(r answer.Row) {
		s.Read(r)
		plan.left.from, plan.left.to = min(plan.left.from, r.Int(surveyLeast)), max(plan.left.to, r.Int(surveyLeast+1)+1)
	})
	err := group.Wait()
	if err == nil && len(rest) > 0 {
		plan.known.from, plan.known.to = minute.within(s.From, s.To, s.Whole())
	}
	return err
}

// surveyLeast is the column of the first middle of a row that is not rolled up; the last follows.
const surveyLeast = 7

// surveySQL is the SQL of the rows that a survey reads.
func surveySQL(from source) string {
	keys := []expression{summed("source"), summed("agent"), summed("session"), summed("unit")}
	rows, r, of := from.grouped(keys, "rows", "packets", parts)
	middles := ""
	if len(from) == 1 && from[0].rest {
		middles = fmt.Sprintf(", min(%[1]s) AS least, max(%[1]s) AS most", middle)
	}
	return fmt.Sprintf("SELECT toString(%s) AS k0, toString(%s) AS k1, toString(%s) AS k2, %s AS units, toInt64(%s) AS n, sum(toFloat64(ifNull(%s, 0))) AS total, toInt64(%s) AS parts%s %s GROUP BY k0, k1, k2, units",
		of[0], of[1], of[2], of[3], r.sum("rows"), r.of("packets"), r.sum(parts), middles, rows)
}
