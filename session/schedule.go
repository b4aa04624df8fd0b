package session

import (
	"fmt"
	"strings"
	"time"
	_ "time/tzdata" // a stock container has no zones

	"github.com/robfig/cron/v3"
)

// Window is one run, from Start to End; End is zero for a run that lasts until stopped.
type Window struct {
	Start, End time.Time
}

// Open reports whether the window has not ended at that time.
func (w Window) Open(now time.Time) bool { return w.End.IsZero() || now.Before(w.End) }

var cronParser = cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow)

// cronReference is where the search for a first match starts: any time that is followed
// by a leap day within a few years would do.
var cronReference = time.Date(2024, time.January, 1, 0, 0, 0, 0, time.UTC)

const cronMax = 256 // maximum length of a cron schedule

// parseCron parses five fields, without time zone, descriptors (@daily) and seconds. The
// schedule takes UTC for the wall clock.
func parseCron(text string) (cron.Schedule, error) {
	if len(text) > cronMax || strings.ContainsAny(text, "=@") {
		return nil, fmt.Errorf("%.40q is not a cron schedule: use five fields (minute, hour, day of month, month, day of week)", text)
	}
	schedule, err := cronParser.Parse(text)
	if fields := strings.Fields(text); err != nil && len(fields) == 5 {
		// Cron calls Sunday 0 or 7, the parser only 0: it reads the days of the week as hours.
		days, failed := cronParser.Parse("0 " + fields[4] + " * * *")
		rest, broken := cronParser.Parse(strings.Join(fields[:4], " ") + " *")
		if failed == nil && broken == nil && days.(*cron.SpecSchedule).Hour < 1<<8 {
			hours := days.(*cron.SpecSchedule).Hour
			rest.(*cron.SpecSchedule).Dow = hours&0x7f | hours>>7
			schedule, err = rest, nil
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%q is not a cron schedule: %w", text, err)
	}
	schedule.(*cron.SpecSchedule).Location = time.UTC
	return schedule, nil
}

// wallSchedule is a schedule by the wall clock of a zone.
type wallSchedule struct {
	cron.Schedule
	zone *time.Location
}

// Next returns the first start after a time; zero if there is none. It searches each span between
// two changes of the clock as if it were UTC, which has none: the library loses starts where
// clocks change by less than an hour.
func (w wallSchedule) Next(after time.Time) time.Time {
	for t := after.In(w.zone); ; {
		next := t.Add(time.Nanosecond) // the first time that counts
		_, end := next.ZoneBounds()
		_, seconds := next.Zone()
		offset := time.Duration(seconds) * time.Second
		wall := w.Schedule.Next(t.UTC().Add(offset))
		if wall.IsZero() {
			return wall
		}
		if start := wall.Add(-offset); end.IsZero() || start.Before(end) {
			return start.In(after.Location())
		}
		t = end.Add(-time.Nanosecond)
	}
}

// loadZone loads a time zone by its IANA name. "Local" is rejected: it differs from host
// to host.
func loadZone(name string) (*time.Location, error) {
	if name == "" {
		name = "UTC"
	}
	zone, err := time.LoadLocation(name)
	if err != nil || name == "Local" {
		return nil, fmt.Errorf("unknown time zone %q; use an IANA name such as Europe/Berlin or UTC", name)
	}
	return zone, nil
}

// Next returns the first run that starts after a time; ok is false if there is none, as
// for a session that starts immediately.
//
// A cron schedule refers to the wall clock of its zone: a start in the hour skipped when
// clocks go forward is skipped, one in the hour repeated when they go back occurs twice.
// A run that would overlap the next one ends when that starts.
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

// End returns the end of a run that started at a time; zero: when it is stopped.
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
	line, err := parseCron(s.Cron)
	return wallSchedule{line, zone}, err == nil
}

func endOf(start time.Time, duration Duration) time.Time {
	if duration == 0 {
		return time.Time{}
	}
	return start.Add(time.Duration(duration))
}

// Upcoming returns the first runs, up to a number, that start at or after one time and
// before another.
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

// ClockNotes describes the starts of a cron schedule that are skipped or occur twice at
// the next two daylight-saving changes of its zone.
func ClockNotes(spec Spec, now time.Time) []string {
	zone, err := loadZone(spec.TimeZone)
	if err != nil || spec.Cron == "" {
		return nil
	}
	wall, err := parseCron(spec.Cron)
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
		// The wall clock, as if it were UTC, before and after the change.
		from, to := change.UTC().Add(time.Duration(before)*time.Second), change.UTC().Add(time.Duration(after)*time.Second)
		what := "is skipped"
		if to.Before(from) {
			from, to, what = to, from, "occurs twice"
		}
		if start := wall.Next(from.Add(-time.Second)); !start.IsZero() && start.Before(to) {
			notes = append(notes, fmt.Sprintf("on %s clocks in %v change: the start at %s %s",
				start.Format(time.DateOnly), zone, start.Format("15:04"), what))
		}
	}
	return notes
}

// missedMax limits the runs that Missed returns, to the latest ones.
const missedMax = 1000

// Missed returns the runs that should have started after a time and up to now: those
// that are over, up to missedMax, and as late the one that has not ended, if any, which
// can start late.
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
