package query

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"pillion.dev/archive"
	"pillion.dev/archive/answer"
	"pillion.dev/measure"
)

// survey plans where the rows of a selection are, and looks at them; nil: the archive never had a row.
func survey(ctx context.Context, e Engine, s *answer.Survey) (Plan, error) {
	if _, err := e.Schema(ctx, measure.Flows.Name); errors.Is(err, archive.ErrUnknown) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	return e.Survey(ctx, s)
}

// SurveyLeast is the column of the first middle of a row that is not rolled up; the last follows.
const SurveyLeast = 7

// Survey is the SQL of the rows that a survey reads.
func (s Source) Survey() string {
	keys := []expression{summed("source"), summed("agent"), summed("session"), summed("unit")}
	rows, r, of := s.grouped(keys, "rows", "packets", parts)
	middles := ""
	if len(s) == 1 && s[0].Rest {
		middles = fmt.Sprintf(", min(%[1]s) AS least, max(%[1]s) AS most", r.Of("time"))
	}
	return fmt.Sprintf("SELECT %s AS k0, %s AS k1, %s AS k2, %s AS units, %s AS n, %s AS total, %s AS parts%s %s GROUP BY k0, k1, k2, units",
		sql(r.ToText, of[0]), sql(r.ToText, of[1]), sql(r.ToText, of[2]), of[3], sql(r.ToInt, r.Sum("rows")), sql(r.Floats, r.Of("packets")), sql(r.ToInt, r.Sum(parts)), middles, rows)
}

// SelectionTerms are the terms of a selection, without the terms of time: before the election any session counts.
// aligned: the range was extended to whole windows after the election.
func (d *Dialect) SelectionTerms(s *answer.Survey, aligned bool) []string {
	list := d.selectionTerms(s.Selection)
	switch {
	case s.Elected == nil:
		return list
	case s.Selection.Session != "":
		return append(list, "session = "+d.Literal(s.Selection.Session))
	case aligned && len(s.Elected) > 1:
		return append(list, d.sessionIn(s.Elected))
	}
	return append(list, d.elected(s.Elected))
}

// selectionTerms are the terms except the session.
func (d *Dialect) selectionTerms(s archive.Selection) (list []string) {
	for _, equal := range []struct{ column, value string }{
		{d.Source, s.Source}, {archive.AgentColumn, s.Destination}, {"src", s.Src}, {"dst", s.Dst}, {"proto", s.Proto},
	} {
		if equal.value != "" {
			list = append(list, equal.column+" = "+d.Literal(equal.value))
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
	return append(list, d.Scoped(&measure.Flows, s.Scope)...)
}

// Scoped is the term of the rows of a stream that are in a scope; none without one.
func (d *Dialect) Scoped(s *measure.Schema, scope *archive.Scope) []string {
	term := scope.Term(archive.OwnershipOf(s), func(column string, list []string) string {
		return d.In("ifNull("+d.Quoted(column)+", '')", list)
	})
	if term == "" {
		return nil
	}
	return []string{term}
}

// Texts that can be null, as the empty text.
const (
	sourceText  = "ifNull(source, '')"
	sessionText = "ifNull(session, '')"
)

// sessionIn is the term of the sessions that pairs elected. Of other pairs no session counts.
func (d *Dialect) sessionIn(sessions map[answer.Pair]string) string {
	var all []string
	for pair, session := range sessions {
		all = append(all, "("+d.Literal(pair.Source)+", "+d.Literal(pair.Destination)+", "+d.Literal(session)+")")
	}
	slices.Sort(all)
	return "(" + sourceText + ", agent, " + sessionText + ") IN (" + strings.Join(all, ", ") + ")"
}

// elected is the same where other pairs have no rows: most pairs are not named, but their session
// is, and a statement with a few names takes less time.
func (d *Dialect) elected(sessions map[answer.Pair]string) string {
	counts, common := map[string]int{}, ""
	for _, session := range sessions {
		counts[session]++
	}
	for _, session := range slices.Sorted(maps.Keys(counts)) {
		if counts[session] > counts[common] {
			common = session
		}
	}
	term := sessionText + " = " + d.Literal(common)
	others := map[answer.Pair]string{}
	var pairs []string
	for pair, session := range sessions {
		if session != common {
			others[pair] = session
			pairs = append(pairs, "("+d.Literal(pair.Source)+", "+d.Literal(pair.Destination)+")")
		}
	}
	if len(others) == 0 {
		return term
	}
	slices.Sort(pairs)
	return fmt.Sprintf("(%s AND (%s, agent) NOT IN (%s) OR %s)", term, sourceText, strings.Join(pairs, ", "), d.sessionIn(others))
}
