package schedule

import (
	"math"
	"testing"
	"time"
)

func made(t testing.TB, s Schedule, err error) []Entry {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return collect(t, s)
}

func TestTrain(t *testing.T) {
	s, err := Train(3, 100, 10, Trains{Count: 2, Every: 15})
	got := made(t, s, err)
	for i, want := range []time.Duration{0, 10, 20, 20, 30, 40} { // the second train waits for the first
		if e := got[i]; e.Due != want || int(e.Train) != i/3 || int(e.Number) != i%3 || e.Size != 100 || e.Together {
			t.Errorf("%d: %+v, want %v", i, e, want)
		}
	}
	s, err = Pair(60, Trains{Count: 2, Every: time.Second})
	got = made(t, s, err)
	if len(got) != 4 || !got[0].Together || got[1].Together || got[2].Due != time.Second || got[3].Due != time.Second {
		t.Errorf("%+v", got)
	}
}

// TestRate: rounding to nanoseconds does not add up, over more packets than a nanosecond's
// worth of error needs to show.
func TestRate(t *testing.T) {
	s, err := Rate(1_000_000, 1514, 50e6, Trains{})
	got := made(t, s, err)
	for i, e := range got {
		if exact := float64(i) * 242240; math.Abs(float64(e.Due)-exact) > 1 {
			t.Fatalf("packet %d at %v, want %v", i, e.Due, exact)
		}
	}
}

func TestChirp(t *testing.T) {
	s, err := Chirp(4, 100, 800, 2, Trains{})
	for i, e := range made(t, s, err) {
		if want := []time.Duration{0, 800, 1200, 1400}[i]; e.Due != want {
			t.Errorf("%d: %v, want %v", i, e.Due, want)
		}
	}
}

func TestStreams(t *testing.T) {
	s, err := Periodic(100, 60, time.Millisecond, 3)
	periodic := made(t, s, err)
	if phase := periodic[0].Due; phase <= 0 || phase >= time.Millisecond || periodic[99].Due != phase+99*time.Millisecond {
		t.Errorf("%v to %v", phase, periodic[99].Due)
	}
	s, err = Poisson(100_000, 60, time.Millisecond, 3)
	first, again := made(t, s, err), made(t, s, err)
	if mean := float64(first[99_999].Due) / 100_000; math.Abs(mean/1e6-1) > 0.02 {
		t.Errorf("mean distance %v ns", mean)
	}
	for i := range first {
		if first[i].Due != again[i].Due {
			t.Fatalf("packet %d differs when drawn again: %v, %v", i, first[i].Due, again[i].Due)
		}
	}
	s, err = Poisson(0, 60, time.Millisecond, 3)
	if err != nil {
		t.Fatal(err)
	}
	for e := range s { // endless
		if e.Number == 1000 {
			break
		}
	}
}

func TestPatternErrors(t *testing.T) {
	for name, f := range map[string]func() (Schedule, error){
		"train":    func() (Schedule, error) { return Train(0, 60, 0, Trains{}) },
		"gap":      func() (Schedule, error) { return Train(1, 60, -1, Trains{}) },
		"rate":     func() (Schedule, error) { return Rate(10, 60, 0, Trains{}) },
		"slow":     func() (Schedule, error) { return Rate(1000, 1514, 1e-9, Trains{}) },
		"chirp":    func() (Schedule, error) { return Chirp(10, 60, 10, 1, Trains{}) },
		"periodic": func() (Schedule, error) { return Periodic(10, 60, 0, 1) },
		"poisson":  func() (Schedule, error) { return Poisson(10, 60, -1, 1) },
	} {
		if _, err := f(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
