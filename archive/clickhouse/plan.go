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
	"pillion.dev/measure"
)

// plan says which roll-ups can answer a question, in place of rows of flows.
type plan struct {
	a *Archive
	// marks are those of each level, by lane.
	marks map[*level]map[uint64]mark
	// unrolled is since when rows arrived that may be in no roll-up.
	unrolled time.Time
	// complete is a range in which all rows of the survey are in the roll-ups of a minute.
	complete struct{ from, to time.Time }
	// cutoffs are before which rows of flows and of each level may have been removed; zero:
	// none.
	raw     time.Time
	cutoffs map[*level]time.Time
}

// spanLeast is how many windows of a level a range has at least for which it is used.
const spanLeast = 24

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
	if s.To.Sub(s.From) < spanLeast*minute.width && !s.From.Before(p.raw) {
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
func (p *plan) rest(s *answer.Survey, terms []string, from, to time.Time) segment {
	rest := p.rows(s, terms, from, to)
	rest.where = rest.prewhere + " AND " + rest.where
	rest.prewhere = fmt.Sprintf("%s >= toDateTime(%d) AND %s", storedColumn, max(0, p.unrolled.Unix()), covers(p.marks[minute], ">"))
	rest.rest = true
	return rest
}

// kept is the shortest window of which the sums are kept since a time; 0: rows are.
func (p *plan) kept(from time.Time) time.Duration {
	switch {
	case len(p.marks[minute]) == 0 || !from.Before(p.raw):
		return 0
	case len(p.marks[hourly]) == 0 || !from.Before(p.cutoffs[minute]):
		return minute.width
	}
	return hourly.width
}

// usable reports whether a level can answer a question about a range in windows of step; 0:
// of any length.
func (p *plan) usable(l *level, s *answer.Survey, step time.Duration) bool {
	if len(p.marks[l]) == 0 || step%l.width != 0 {
		return false
	}
	return s.To.Sub(s.From) >= spanLeast*l.width || p.kept(s.From) >= l.width
}

// source divides the rows of a selection between roll-ups and flows.
func (p *plan) source(s *answer.Survey, step time.Duration) (list source) {
	terms := selected(s, step != 0)
	from, to, whole := s.From, s.To, s.Whole()
	if !p.usable(minute, s, step) {
		return source{p.rows(s, terms, from, to)}
	}
	m0, m1 := minute.within(from, to, whole)
	if !m0.Before(m1) {
		return source{p.rows(s, terms, from, to)}
	}
	h0, h1 := m1, m1
	if p.usable(hourly, s, step) {
		if a, b := hourly.within(m0, m1, m1); a.Before(b) {
			h0, h1 = a, b
			list = append(list, p.rolled(hourly, terms, h0, h1, covers(p.marks[hourly], "<=")))
			list = append(list, p.rolled(minute, terms, h0, h1, covers(p.marks[minute], "<=")+" AND "+covers(p.marks[hourly], ">")))
		}
	}
	done := covers(p.marks[minute], "<=")
	for _, r := range [][2]time.Time{{m0, h0}, {h1, m1}} {
		if r[0].Before(r[1]) {
			list = append(list, p.rolled(minute, terms, r[0], r[1], done))
		}
	}
	for _, r := range [][2]time.Time{{from, m0}, {m1, to}} {
		if r[0].Before(r[1]) {
			list = append(list, p.rows(s, terms, r[0], r[1]))
		}
	}
	if m0.Before(p.complete.from) || m1.After(p.complete.to) {
		list = append(list, p.rest(s, terms, m0, m1))
	}
	return list
}

// within is the part of a range that is in whole windows, all of whose rows count before a time.
func (l *level) within(from, to, whole time.Time) (first, last time.Time) {
	if whole.Before(to) {
		to = whole
	}
	floor := func(t time.Time) int64 { return t.UnixNano() - t.UnixNano()%int64(l.width) }
	first = time.Unix(0, floor(from.Add(l.width-1)))
	if from.UnixNano() < 0 {
		first = time.Unix(0, 0)
	}
	return first, time.Unix(0, floor(to))
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

// rows are those of flows whose middle is in a range.
func (p *plan) rows(s *answer.Survey, terms []string, from, to time.Time) segment {
	end := s.EndOf(to)
	within := middle + " >= " + integer(from.UnixNano()) + " AND " + middle + " < " + integer(to.UnixNano())
	return segment{table: p.a.table(measure.Flows.Name), representation: rawRows, prewhere: joined(terms, since(from), until(end)), where: within}
}

// rolled are the rows of a level in a range of whole windows.
func (p *plan) rolled(l *level, terms []string, from, to time.Time, marked string) segment {
	return segment{table: p.a.table(l.name), representation: rolledRows, prewhere: joined(terms, since(from), until(to), []string{marked}), where: "1"}
}

// joined are terms that all hold.
func joined(terms ...[]string) string { return strings.Join(slices.Concat(terms...), " AND ") }
