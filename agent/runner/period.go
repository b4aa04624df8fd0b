package runner

import "time"

// moment is a reading of two clocks at once: the wall clock, which may be stepped, and
// the monotonic clock.
type moment struct {
	day    time.Time
	steady time.Duration
}

var began = time.Now()

// present reads the clocks of the host.
func present() moment {
	now := time.Now()
	return moment{day: now.Round(0), steady: now.Sub(began)} // Round strips the monotonic reading
}

// period is the time that the rows being collected cover.
type period struct {
	begun moment
	next  time.Time // when it ends, by the wall clock
}

// boundary is the next end of a period: a multiple of the interval, so that the rows
// of all hosts end together.
func boundary(now time.Time, interval time.Duration) time.Time {
	return now.Truncate(interval).Add(interval)
}

func begin(now moment, interval time.Duration) period {
	return period{begun: now, next: boundary(now.day, interval)}
}

// over reports whether the period ends now. A wall clock that was set back ends it
// too: no period is longer than the interval, however the clock is stepped.
func (t period) over(now moment, interval time.Duration) bool {
	return !now.day.Before(t.next) || t.next.Sub(now.day) > interval || t.length(now) >= interval
}

// length is how long the period is, by the monotonic clock.
func (t period) length(now moment) time.Duration { return now.steady - t.begun.steady }

// Periods calls emit at the end of each interval, and for the last period when ended is closed, by
// the clocks of the runner: with the time and the length of the period.
func (o Options) Periods(interval time.Duration, ended <-chan struct{}, emit func(at time.Time, length time.Duration)) {
	period := begin(o.now(), interval)
	for {
		wait := time.NewTimer(min(interval, max(period.next.Sub(o.now().day), time.Millisecond)))
		select {
		case <-ended:
			wait.Stop()
			now := o.now()
			emit(now.day, period.length(now))
			return
		case <-wait.C:
		}
		if now := o.now(); period.over(now, interval) {
			emit(now.day, period.length(now))
			period = begin(now, interval)
		}
	}
}
