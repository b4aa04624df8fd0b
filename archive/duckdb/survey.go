package duckdb

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"pillion.dev/archive"
	"pillion.dev/measure"
	"pillion.dev/measure/flows"
)

const (
	// sampleDefault is the number of histograms above which they are sampled.
	sampleDefault = 200_000
	sessionsMost  = 200
	// unit is what intervals are rounded up to.
	unit = 100 * time.Millisecond
	// slack is how far beyond a range of time rows can end whose middle is in it, as
	// long as their interval is not known.
	slack = time.Minute
)

// middle is that of a row's interval, ns since 1970.
var middle = fmt.Sprintf("(epoch_ns(time) - greatest(0, least(coalesce(interval_ns, 0), %d)) // 2)", int64(flows.IntervalMax))

// survey is a first look at a selection before its rows are summed.
type survey struct {
	selection archive.Selection
	from, to  time.Time
	before    time.Time // rows ended then or later do not count; zero: all do
	// elected is the session of each pair whose rows count; rows and interval are theirs.
	elected  map[pairOf]string
	rows     int64
	interval time.Duration
	slack    time.Duration
	// sessions are all, those with most packets first.
	sessions []string
}

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
	return list, arguments
}

// within are terms of rows whose middle is in the range. The first two are what the
// zone maps of the table understand.
func (s *survey) within() (list []string, arguments []any) {
	list, arguments = terms(s.selection)
	list = append(list, "time >= ?", "time < ?", middle+" >= ?", middle+" < ?")
	end := s.to.Add(s.slack)
	if !s.before.IsZero() && s.before.Before(end) {
		end = s.before
	}
	return list, append(arguments, s.from, end, s.from.UnixNano(), s.to.UnixNano())
}

// where is the condition that selects the rows.
func (s *survey) where() (sql string, arguments []any) {
	list, arguments := s.within()
	if s.selection.Session != "" {
		return strings.Join(append(list, "session = ?"), " AND "), append(arguments, s.selection.Session)
	}
	var sources, agents, sessions []string
	for pair, session := range s.elected {
		sources, agents, sessions = append(sources, pair.source), append(agents, pair.destination), append(sessions, session)
	}
	if len(sessions) < 2 {
		return strings.Join(append(list, "coalesce(session, '') = ?"), " AND "), append(arguments, strings.Join(sessions, ""))
	}
	return strings.Join(append(list, `(coalesce(source, ''), agent, coalesce(session, '')) IN (
		SELECT (unnest(?), unnest(?), unnest(?)))`), " AND "), append(arguments, sources, agents, sessions)
}

// look determines the sessions and intervals of a selection's rows.
func (s *survey) look(ctx context.Context, c *connection) error {
	s.slack = slack
	list, arguments := s.within()
	sql := fmt.Sprintf(`SELECT coalesce(source, '') AS source, agent, coalesce(session, '') AS session,
		((greatest(0, least(coalesce(interval_ns, 0), %d)) * 9 // 10 + %d) // %d)::BIGINT AS units,
		count(*) AS n, coalesce(sum(packets), 0)::DOUBLE AS packets FROM %s WHERE %s GROUP BY ALL`,
		int64(flows.IntervalMax), int64(unit-1), int64(unit), tableOf(measure.Flows.Name), strings.Join(list, " AND "))
	found := sightings{}
	if err := c.query(ctx, sql, arguments, each(found.read)); err != nil {
		return err
	}
	found.sum(s)
	s.slack = max(slack, s.interval)
	return nil
}

// pairOf is two hosts; sighted sums the rows of one session for them.
type pairOf struct{ source, destination string }

type sighted struct {
	packets float64
	rows    int64
	units   map[int64]int64 // rows by interval
}

type sightings map[pairOf]map[string]*sighted

func (f sightings) read(r resultRow) {
	pair, session := pairOf{r.text(0), r.text(1)}, r.text(2)
	if f[pair] == nil {
		f[pair] = map[string]*sighted{}
	}
	one := f[pair][session]
	if one == nil {
		one = &sighted{units: map[int64]int64{}}
		f[pair][session] = one
	}
	one.packets += r.float(5)
	one.rows += r.int(4)
	one.units[r.int(3)] += r.int(4)
}

// sum elects the session of each pair and sums the elected ones.
func (f sightings) sum(s *survey) {
	packets, units := map[string]float64{}, map[int64]int64{}
	s.elected = map[pairOf]string{}
	for pair, sessions := range f {
		for name, one := range sessions {
			packets[name] += one.packets
		}
		s.elected[pair] = cmp.Or(s.selection.Session, flows.Elect(func(yield func(string, float64) bool) {
			for name, one := range sessions {
				if !yield(name, one.packets) {
					return
				}
			}
		}, "", 1))
		if elected := sessions[s.elected[pair]]; elected != nil {
			s.rows += elected.rows
			for u, n := range elected.units {
				units[u] += n
			}
		}
	}
	s.sessions = slices.SortedFunc(maps.Keys(packets), func(a, b string) int {
		return cmp.Or(cmp.Compare(packets[b], packets[a]), cmp.Compare(a, b))
	})
	s.sessions = s.sessions[:min(len(s.sessions), sessionsMost)]
	s.interval = longest(units)
}

// longest is the longest interval that matters. Single rows come out longer than
// they should, as those of a busy host: up to twice the usual length these matter
// from a fifth of the time on, others from a hundredth.
func longest(units map[int64]int64) time.Duration {
	var all []int64
	total, usual := 0.0, int64(0)
	taken := func(u int64) float64 { return float64(u) * float64(units[u]) }
	for u := range units {
		all = append(all, u)
		total += taken(u)
		if usual == 0 || taken(u) > taken(usual) || taken(u) == taken(usual) && u > usual {
			usual = u
		}
	}
	slices.Sort(all)
	over := 0.0
	for _, u := range slices.Backward(all) {
		over += taken(u)
		if u == usual || over > total/5 || u > 2*usual && over > total/100 {
			return time.Duration(u) * unit
		}
	}
	return 0
}

// every returns n such that every nth row is read for histograms.
func every(rows, sample int64) int64 {
	if sample <= 0 {
		sample = sampleDefault
	}
	return max(1, int64(math.Ceil(float64(rows)/float64(sample))))
}
