package clock

import (
	"testing"
	"time"
)

// TestFollower: each step of the clock is found once, and the distance afterwards is the one of the
// stepped clock; a drift and the uncertainty of readings are no steps.
func TestFollower(t *testing.T) {
	t.Cleanup(func() { injected.Store(nil) })
	const near = 100 * time.Millisecond // of readings on a busy machine
	past := time.Unix(1, 0)
	var f Follower
	var distance, sum time.Duration
	for _, row := range []struct {
		name string
		is   Injection
		want time.Duration
	}{
		{"first", Injection{}, 0},
		{"none", Injection{}, 0},
		{"forward", Injection{Step: 10 * time.Second, StepAt: past}, 10 * time.Second},
		{"stays", Injection{Step: 10 * time.Second, StepAt: past}, 0},
		{"back", Injection{Step: -time.Hour, StepAt: past}, -time.Hour - 10*time.Second},
		{"a second", Injection{Step: -time.Hour + time.Second, StepAt: past}, time.Second},
		{"drift", Injection{Step: -time.Hour + time.Second + time.Microsecond, StepAt: past}, 0},
	} {
		Inject(row.is)
		before := distance
		var err error
		if distance, err = f.Follow(); err != nil {
			t.Fatal(err)
		}
		step, stepped := f.Step()
		if (step-row.want).Abs() > near || stepped != (row.want != 0) {
			t.Errorf("%s: step %v (%t), want %v", row.name, step, stepped, row.want)
		}
		if sum += step; before != 0 && (distance-before-row.want).Abs() > near {
			t.Errorf("%s: the distance changed by %v, want %v", row.name, distance-before, row.want)
		}
		if again, stepped := f.Step(); stepped {
			t.Errorf("%s: again a step of %v", row.name, again)
		}
	}
	for again := time.Duration(0); again == 0 || (again-distance-time.Hour).Abs() > near; again = f.Recent() { // until the reading is too old
		Inject(Injection{Step: time.Second, StepAt: past})
	}
	sum += time.Hour
	if apart := time.Until(f.Now()) - sum; apart.Abs() > time.Minute { // detects a wrong sign or clock
		t.Errorf("its time is %v from the stepped one", apart)
	}
}
