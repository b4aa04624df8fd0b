package session

import (
	"fmt"
	"strings"
	"time"
	_ "time/tzdata" // a stock container has no zones

	"github.com/robfig/cron/v3"
)

// Window is one run: from Start to End, which is zero for a run that ends when it
// is stopped.
type Window struct {
	Start, End time.Time
}

// Open reports whether the window still lasts at that time.
func (w Window) Open(now time.Time) bool { return w.End.IsZero() || now.Before(w.End) }

var cronParser = cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow)

// cronReference is where the search for a first fit begins; any time would do that
// has a leap day in the years behind it.
var cronReference = time.Date(2024, time.January, 1, 0, 0, 0, 0, time.UTC)

const cronMax = 256 // characters of a cron line

// parseCron reads five fields and nothing else: a time zone inside, descriptors
// and seconds are refused.
func parseCron(text string, zone *time.Location) (cron.Schedule, error) {
	if len(text) > cronMax || strings.ContainsAny(text, "=@") {
		return nil, fmt.Errorf("%.40q is not a cron line: use five fields (minute, hour, day of month, month, day of week)", text)
	}
	schedule, err := cronParser.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%q is not a cron line: %w", text, err)
	}
	if fields, ok := schedule.(*cron.SpecSchedule); ok {
		fields.Location = zone
	}
	return schedule, nil
}

// loadZone finds a time zone by its IANA name. "Local" is the server's and means
// something else elsewhere, so it is none.
func loadZone(name string) (*time.Location, error) {
	if name == "" {
		name = "UTC"
	}
	zone, err := time.LoadLocation(name)
	if err != nil || name == "Local" {
		return nil, fmt.Errorf("there is no time zone %q; Europe/Berlin and UTC are examples", name)
	}
	return zone, nil
}

// Next is the first run that starts after that time; ok is false where there is
// none, also for a session that starts at once.
//
// A cron line is about the wall clock of its zone. On the day on which clocks go
// forward, a time that they skip is not run. On the day on which they go back, a
// time that comes twice is run twice. A run that would last into the next one ends
// where that begins.
func Next(spec Spec, after time.Time) (start, end time.Time, ok bool) {
	if spec.Cron == "" {
		if !spec.Start.After(after) {
			return time.Time{}, time.Time{}, false
		}
		return spec.Start, endOf(spec.Start, spec.Duration), true
	}
	line, ok := spec.line()
	if !ok {
		return time.Time{}, time.Time{}, false
	}
	if first := spec.Start.Add(-time.Nanosecond); !spec.Start.IsZero() && first.After(after) {
		after = first
	}
	if start = line.Next(after); start.IsZero() {
		return time.Time{}, time.Time{}, false
	}
	return start, End(spec, start), true
}

// End is when a run that began at that time ends; zero: when it is stopped.
func End(spec Spec, start time.Time) time.Time {
	end := endOf(start, spec.Duration)
	if line, ok := spec.line(); ok && spec.Cron != "" {
		if next := line.Next(start); !next.IsZero() && next.Before(end) {
			return next
		}
	}
	return end
}

func (s Spec) line() (cron.Schedule, bool) {
	zone, err := loadZone(s.TimeZone)
	if err != nil {
		return nil, false
	}
	line, err := parseCron(s.Cron, zone)
	return line, err == nil
}

func endOf(start time.Time, duration Duration) time.Time {
	if duration == 0 {
		return time.Time{}
	}
	return start.Add(time.Duration(duration))
}

// Upcoming are the runs that start from one time on and before another, at most so
// many of them.
func Upcoming(spec Spec, from, to time.Time, most int) []Window {
	var windows []Window
	after := from.Add(-time.Nanosecond)
	for len(windows) < most {
		start, end, ok := Next(spec, after)
		if !ok || !start.Before(to) {
			break
		}
		windows = append(windows, Window{start, end})
		after = start
	}
	return windows
}

// ClockNotes say which starts of a cron line fall into the next two changes of the
// clocks in its zone, where they are skipped or come twice.
func ClockNotes(spec Spec, now time.Time) []string {
	zone, err := loadZone(spec.TimeZone)
	if err != nil || spec.Cron == "" {
		return nil
	}
	wall, err := parseCron(spec.Cron, time.UTC)
	if err != nil {
		return nil
	}
	var notes []string
	change := now.In(zone)
	for range 2 {
		if _, change = change.ZoneBounds(); change.IsZero() {
			break
		}
		_, before := change.Add(-time.Second).Zone()
		_, after := change.Zone()
		// The wall clock, as if it were UTC, on either side of the change.
		from, to := change.UTC().Add(time.Duration(before)*time.Second), change.UTC().Add(time.Duration(after)*time.Second)
		what := "is skipped"
		if to.Before(from) {
			from, to, what = to, from, "comes twice"
		}
		if start := wall.Next(from.Add(-time.Second)); !start.IsZero() && start.Before(to) {
			notes = append(notes, fmt.Sprintf("on %s clocks in %v change: the start at %s %s",
				start.Format(time.DateOnly), zone, start.Format("15:04"), what))
		}
	}
	return notes
}

// missedMax bounds what Missed gives; who was away longer learns of the last ones.
const missedMax = 1000

// Missed are the runs that should have started after one time and up to now.
// Those that are over are missed; late is the one that still lasts, if there is
// one, and can start late. Of very many, only the last are given.
func Missed(spec Spec, after, now time.Time) (missed []Window, late *Window) {
	for {
		start, end, ok := Next(spec, after)
		if !ok || start.After(now) {
			return missed, late
		}
		after = start
		window := Window{start, end}
		if window.Open(now) {
			late = &window
			continue
		}
		if len(missed) == missedMax {
			missed = append(missed[:0], missed[1:]...)
		}
		missed = append(missed, window)
	}
}
