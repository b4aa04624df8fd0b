package runner

import "time"

// moment is a reading of two clocks at once: that of day, which somebody may step,
// and a steady one.
type moment struct {
	day    time.Time
	steady time.Duration
}

var began = time.Now()

// present reads the clocks of the host.
func present() moment {
	now := time.Now()
	return moment{day: now.Round(0), steady: now.Sub(began)} // Round takes the steady reading off
}

// turn is the window that is open.
type turn struct {
	begun moment
	next  time.Time // when it ends, by the clock of day
}

// boundary is the next end of a window: a multiple of the interval, so that the
// rows of all hosts end together.
func boundary(now time.Time, interval time.Duration) time.Time {
	return now.Truncate(interval).Add(interval)
}

func begin(now moment, interval time.Duration) turn {
	return turn{begun: now, next: boundary(now.day, interval)}
}

// over reports whether the window ends now. A clock that was set back ends it too:
// no window is longer than the interval, however the clock is stepped.
func (t turn) over(now moment, interval time.Duration) bool {
	return !now.day.Before(t.next) || t.next.Sub(now.day) > interval || t.length(now) >= interval
}

// length is how long the window is, by the steady clock.
func (t turn) length(now moment) time.Duration { return now.steady - t.begun.steady }
