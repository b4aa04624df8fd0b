package clickhouse

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"pillion.dev/archive/answer"
	"pillion.dev/archive/query"
	"pillion.dev/measure"
)

// plan says which roll-ups can answer a question, in place of rows of flows.
type plan struct {
	a *Archive
	// marks say how far each level is rolled up, by lane.
	marks map[*level]map[uint64]mark
	// unrolled is since when rows arrived that may be in no roll-up.
	unrolled time.Time
	// known is a range in which the rows of the survey that are in no roll-up are those in left, ns.
	known struct{ from, to time.Time }
	left  struct{ from, to int64 }
	// cutoffs are before which rows of flows and of each level may have been removed; zero:
	// none.
	raw     time.Time
	cutoffs map[*level]time.Time
}

// plan reads how far the roll-ups are, unless the range is too short for them and its rows are
// still there.
func (a *Archive) plan(ctx context.Context, s *answer.Survey) (*plan, error) {
	p := &plan{a: a, marks: map[*level]map[uint64]mark{}, cutoffs: map[*level]time.Time{}}
	if a.options.RollUp < 0 {
		return p, nil
	}
	now := a.options.Now()
	if age := a.retentionAge(measure.Flows.Name); age > 0 {
		p.raw = now.Add(-age)
	}
	if s.To.Sub(s.From) < minute.span && !s.From.Before(p.raw) {
		return p, nil
	}
	var err error
	if p.marks, err = a.readMarks(ctx, time.Now().Add(-a.settled())); err != nil {
		return nil, err
	}
	lanes := map[uint64]bool{}
	// Rows that are copied from another archive are found once they are rolled up: they did not
	// arrive just now.
	err = a.query(ctx, fmt.Sprintf("SELECT DISTINCT lane FROM %s WHERE lane < %d", a.own(lanesTable), copyLanes), func(scan func(...any) error) error {
		var lane uint64
		err := scan(&lane)
		lanes[lane] = true
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read lanes: %w", err)
	}
	p.unrolled = time.Unix(math.MaxInt32, 0)
	for lane := range lanes {
		if at := p.marks[minute][lane].at; at.Before(p.unrolled) {
			p.unrolled = at
		}
	}
	p.unrolled = p.unrolled.Add(-clockSlack)
	for _, l := range levels {
		p.cutoffs[l] = now.Add(-a.retentionOf(l))
	}
	return p, nil
}

// rest are the rows of a range that are not rolled up. Of all rows in the range they are few: when
// they arrived says which.
func (p *plan) rest(s *answer.Survey, terms []string, from, to time.Time) query.Segment {
	rest := p.rows(s, terms, from, to)
	rest.Where = rest.Prewhere + " AND " + rest.Where
	rest.Prewhere = fmt.Sprintf("%s >= toDateTime(%d) AND %s", storedColumn, max(0, p.unrolled.Unix()), covers(p.marks[minute], ">"))
	rest.Rest = true
	return rest
}

// Kept implements query.Plan.
func (p *plan) Kept(from time.Time) (width time.Duration) {
	cutoff := p.raw
	for _, l := range levels {
		if len(p.marks[l]) == 0 || !from.Before(cutoff) {
			break
		}
		width, cutoff = l.width, p.cutoffs[l]
	}
	return width
}

// usable reports whether a level can answer a question about a range in windows of step; 0:
// of any length.
func (p *plan) usable(l *level, s *answer.Survey, step time.Duration) bool {
	if len(p.marks[l]) == 0 || step%l.width != 0 {
		return false
	}
	return s.To.Sub(s.From) >= l.span || p.Kept(s.From) >= l.width
}

// Source implements query.Plan. It divides the rows of a selection between roll-ups and flows.
func (p *plan) Source(s *answer.Survey, step time.Duration) (list query.Source) {
	terms := dialect.SelectionTerms(s, step != 0)
	spans := p.spans(s, step)
	if len(spans) == 0 {
		return query.Source{p.rows(s, terms, s.From, s.To)}
	}
	for i, one := range spans {
		done := covers(p.marks[one.level], "<=")
		if i+1 == len(spans) {
			list = append(list, p.rolled(one, terms, done))
			continue
		}
		// The rows within the span of the next level are those that are not in it yet.
		next := spans[i+1]
		list = append(list, p.rolled(span{one.level, next.from, next.to}, terms, done+" AND "+p.after(next.level, one.level)))
		for _, end := range []span{{one.level, one.from, next.from}, {one.level, next.to, one.to}} {
			if end.from.Before(end.to) {
				list = append(list, p.rolled(end, terms, done))
			}
		}
	}
	from, to := spans[0].from, spans[0].to
	for _, r := range [][2]time.Time{{s.From, from}, {to, s.To}} {
		if r[0].Before(r[1]) {
			list = append(list, p.rows(s, terms, r[0], r[1]))
		}
	}
	if !from.Before(p.known.from) && !to.After(p.known.to) {
		from, to = time.Unix(0, max(from.UnixNano(), p.left.from)), time.Unix(0, min(to.UnixNano(), p.left.to))
	}
	if from.Before(to) {
		list = append(list, p.rest(s, terms, from, to))
	}
	return list
}

// span is a range of whole windows of a level.
type span struct {
	level    *level
	from, to time.Time
}

// spans returns the spans of the levels that answer a question, each within the one before; none: no level does.
func (p *plan) spans(s *answer.Survey, step time.Duration) (list []span) {
	from, to, whole := s.From, s.To, s.Whole()
	for _, l := range levels {
		if a, b := l.within(from, to, whole); p.usable(l, s, step) && a.Before(b) {
			list, from, to, whole = append(list, span{l, a, b}), a, b, b
		} else if l == minute {
			break
		}
	}
	return list
}

// within is the part of a range that is in whole windows, all of whose rows count before a time.
func (l *level) within(from, to, whole time.Time) (first, last time.Time) {
	if whole.Before(to) {
		to = whole
	}
	first = l.window(from.Add(l.width - 1))
	if from.UnixNano() < 0 {
		first = time.Unix(0, 0)
	}
	return first, l.window(to)
}

// window is the start of the window that has a time since 1970.
func (l *level) window(t time.Time) time.Time {
	return time.Unix(0, t.UnixNano()-t.UnixNano()%int64(l.width))
}

// covers compares the commits of rows with the marks of a level: rows of lanes without one are
// in no roll-up.
func covers(marks map[uint64]mark, comparison string) string {
	var lanes, commits []string
	for _, lane := range slices.Sorted(maps.Keys(marks)) {
		lanes, commits = append(lanes, fmt.Sprintf("toUInt64(%d)", lane)), append(commits, fmt.Sprintf("toUInt64(%d)", marks[lane].commit))
	}
	if len(lanes) == 0 {
		lanes, commits = []string{"toUInt64(0)"}, []string{"toUInt64(0)"}
	}
	return fmt.Sprintf("%s %s transform(%s, [%s], [%s], toUInt64(0))", commitColumn, comparison, laneColumn, strings.Join(lanes, ", "), strings.Join(commits, ", "))
}

// rows is the segment of the rows of flows whose middle is in a range.
func (p *plan) rows(s *answer.Survey, terms []string, from, to time.Time) query.Segment {
	end := s.EndOf(to)
	middle := rawRows.Of("time")
	within := middle + " >= " + integer(from.UnixNano()) + " AND " + middle + " < " + integer(to.UnixNano())
	return query.Segment{Table: p.a.table(measure.Flows.Name), Representation: rawRows, Prewhere: query.All(terms, since(from), until(end)), Where: within}
}

// rolled are the rows of a level in a span.
func (p *plan) rolled(r span, terms []string, marked string) query.Segment {
	return query.Segment{Table: p.a.table(r.level.name), Representation: rolledRows, Prewhere: query.All(terms, since(r.from), until(r.to), []string{marked}), Where: "1"}
}

// after selects the rows of a level that are not in the one above. They were stored after its marks were made.
func (p *plan) after(above, l *level) string {
	least := time.Unix(math.MaxInt32, 0)
	for lane := range p.marks[l] {
		if at := p.marks[above][lane].at; at.Before(least) {
			least = at
		}
	}
	return fmt.Sprintf("%s >= toDateTime(%d) AND %s", storedColumn, max(0, least.Add(-clockSlack).Unix()), covers(p.marks[above], ">"))
}
