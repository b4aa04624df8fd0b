package answer

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"pillion.dev/archive"
	"pillion.dev/measure/flows"
)

const (
	// sampleDefault is the number of histograms above which they are sampled.
	sampleDefault = 200_000
	sessionsMost  = 200
	// Unit is what nine tenths of intervals are rounded up to.
	Unit = 100 * time.Millisecond
	// slack is how far beyond a range of time rows can end whose middle is in it, as
	// long as their interval is not known.
	slack = time.Minute
)

// Survey is a first look at a selection before its rows are summed.
type Survey struct {
	Selection archive.Selection
	From, To  time.Time
	Before    time.Time // rows ended then or later do not count; zero: all do
	// Elected is the session of each pair whose rows count; Rows and Interval are theirs.
	Elected map[Pair]string
	// Beside are the other sessions of pairs that have several, by name.
	Beside   map[Pair][]string
	Rows     int64
	Interval time.Duration
	// Parts is in how many rows of the archive theirs are, sums of rows counting once.
	Parts int64
	// Sessions are all, those with most packets first.
	Sessions []string

	slack time.Duration
	found map[Pair]map[string]*sighted
}

// Pair is two hosts.
type Pair struct{ Source, Destination string }

// sighted sums the rows of one session for a pair.
type sighted struct {
	packets float64
	rows    int64
	parts   int64
	units   map[int64]int64 // rows by interval
}

func newSurvey(selection archive.Selection, from, to, before time.Time) Survey {
	return Survey{Selection: selection, From: from, To: to, Before: before, slack: slack}
}

// End (exclusive) bounds the time of the rows whose middle is in the range.
func (s *Survey) End() time.Time { return s.EndOf(s.To) }

// EndOf is End of a range that ends at to.
func (s *Survey) EndOf(to time.Time) time.Time {
	end := to.Add(s.slack)
	if !s.Before.IsZero() && s.Before.Before(end) {
		end = s.Before
	}
	return end
}

// Read adds a row of the columns source, destination, session, units, number of rows and
// packets, which is a float64, and parts. Units are nine tenths of the interval, rounded up.
func (s *Survey) Read(r Row) {
	pair, session := Pair{r.Text(0), r.Text(1)}, r.Text(2)
	if s.found == nil {
		s.found = map[Pair]map[string]*sighted{}
	}
	if s.found[pair] == nil {
		s.found[pair] = map[string]*sighted{}
	}
	one := s.found[pair][session]
	if one == nil {
		one = &sighted{units: map[int64]int64{}}
		s.found[pair][session] = one
	}
	one.packets += r.Float(5)
	one.rows += r.Int(4)
	one.parts += r.Int(6)
	one.units[r.Int(3)] += r.Int(4)
}

// Elect chooses the session of each pair and sums the elected ones. It ends reading.
func (s *Survey) Elect() {
	packets, units := map[string]float64{}, map[int64]int64{}
	s.Elected, s.Beside = map[Pair]string{}, map[Pair][]string{}
	for pair, sessions := range s.found {
		for name, one := range sessions {
			packets[name] += one.packets
		}
		s.Elected[pair] = cmp.Or(s.Selection.Session, flows.Elect(func(yield func(string, float64) bool) {
			for name, one := range sessions {
				if !yield(name, one.packets) {
					return
				}
			}
		}, "", 1))
		for _, name := range slices.Sorted(maps.Keys(sessions)) {
			if name != s.Elected[pair] {
				s.Beside[pair] = append(s.Beside[pair], name)
			}
		}
		if elected := sessions[s.Elected[pair]]; elected != nil {
			s.Rows += elected.rows
			s.Parts += elected.parts
			for u, n := range elected.units {
				units[u] += n
			}
		}
	}
	s.found = nil
	s.Sessions = slices.SortedFunc(maps.Keys(packets), func(a, b string) int {
		return cmp.Or(cmp.Compare(packets[b], packets[a]), cmp.Compare(a, b))
	})
	s.Sessions = s.Sessions[:min(len(s.Sessions), sessionsMost)]
	s.Interval = longest(units)
	s.slack = max(slack, s.Interval)
}

// Whole is the latest time such that all rows count whose middle is before it.
func (s *Survey) Whole() time.Time {
	if s.Before.IsZero() || s.Before.After(s.To.Add(s.slack)) {
		return s.To
	}
	return s.Before.Add(-s.slack)
}

// align extends the range to whole windows.
func (s *Survey) align(step time.Duration) {
	from, to := s.From.UnixNano(), s.To.UnixNano()
	from -= from % int64(step)
	if rest := to % int64(step); rest != 0 {
		to += int64(step) - rest
	}
	s.From, s.To = time.Unix(0, from).UTC(), time.Unix(0, to).UTC()
}

// longest is the longest interval that matters. Single rows are longer than they should be, such as rows of a busy
// host: intervals up to twice the usual length matter if they cover a fifth of the time, longer ones if they cover
// a hundredth.
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
			return time.Duration(u) * Unit
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
