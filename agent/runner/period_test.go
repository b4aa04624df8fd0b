package runner

import (
	"testing"
	"time"
)

// A step of the clock ends a period early, never late, and never moves the steady
// length.
func TestPeriodIsOver(t *testing.T) {
	noon := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	const interval = 10 * time.Second
	for _, test := range []struct {
		name         string
		from         time.Duration // start of the period, after noon
		passed, step time.Duration
		over         bool
		next         time.Duration // end of the period that follows, after noon
	}{
		{"just begun", 0, 0, 0, false, 0},
		{"not yet", 0, 9999 * time.Millisecond, 0, false, 0},
		{"at its end", 0, interval, 0, true, 20 * time.Second},
		{"begun late", 7 * time.Second, 3 * time.Second, 0, true, 20 * time.Second},
		{"begun late, not yet", 7 * time.Second, 2 * time.Second, 0, false, 0},
		{"forward over its end", 0, 2 * time.Second, 10 * time.Second, true, 20 * time.Second},
		{"forward within it", 0, 2 * time.Second, 5 * time.Second, false, 0},
		{"forward by a day", 0, 2 * time.Second, 24 * time.Hour, true, 24*time.Hour + 10*time.Second},
		{"back before its begin", 0, 2 * time.Second, -10 * time.Second, true, 0},
		{"back within it, not yet", 0, 6 * time.Second, -5 * time.Second, false, 0},
		{"back within it, a whole interval ago", 0, interval, -5 * time.Second, true, 10 * time.Second},
		{"back by a day", 0, time.Second, -24 * time.Hour, true, -24*time.Hour + 10*time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			first := moment{day: noon.Add(test.from), steady: time.Hour}
			opened := begin(first, interval)
			now := moment{day: first.day.Add(test.passed + test.step), steady: first.steady + test.passed}
			if opened.over(now, interval) != test.over || opened.length(now) != test.passed {
				t.Errorf("ended %t after %v, want %t after %v", !test.over, opened.length(now), test.over, test.passed)
			}
			if next := begin(now, interval).next; test.over && !next.Equal(noon.Add(test.next)) {
				t.Errorf("the next ends at %v, want %v", next, noon.Add(test.next))
			}
		})
	}
}

func TestMomentSeparatesClocks(t *testing.T) {
	first := present()
	if second := present(); second.steady < first.steady || second.day != second.day.Round(0) {
		t.Errorf("%v, then %v", first, second)
	}
}

// TestPeriodsEnd: the last period is reported when the caller has ended, with the time that it covers.
func TestPeriodsEnd(t *testing.T) {
	clock := moment{day: time.Unix(1000, 0)}
	ended := make(chan struct{})
	close(ended)
	var got []string
	options := Options{now: func() moment { clock.steady += time.Second; return clock }}
	options.Periods(time.Hour, ended, func(at time.Time, length time.Duration) {
		got = append(got, at.UTC().Format(time.TimeOnly)+" "+length.String())
	})
	if len(got) != 1 || got[0] != "00:16:40 2s" {
		t.Errorf("got %q", got)
	}
}
