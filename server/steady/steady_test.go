package steady

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pillion.dev/internal/store"
)

const day = 24 * time.Hour

// fake is a machine with its clocks, and the clocks of others.
type fake struct {
	t         *testing.T
	folder    string
	boot      string
	up        time.Duration
	wall      time.Time
	witnesses []time.Duration
	*Clock
}

func newFake(t *testing.T) *fake {
	f := &fake{t: t, folder: t.TempDir(), boot: "one", up: time.Hour, wall: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	f.start()
	return f
}

func (f *fake) start() {
	f.t.Helper()
	clock, err := Open(Options{
		Folder: f.folder, Boot: f.boot, Witnesses: func() []time.Duration { return f.witnesses },
		Wall: func() time.Time { return f.wall }, Uptime: func() time.Duration { return f.up },
	})
	if err != nil {
		f.t.Fatal(err)
	}
	f.Clock = clock
}

// pass lets time elapse and returns what is held then.
func (f *fake) pass(d time.Duration) (held string) {
	f.t.Helper()
	f.up, f.wall = f.up+d, f.wall.Add(d)
	held, err := f.Step()
	if err != nil {
		f.t.Fatal(err)
	}
	return held
}

// set sets the wall clock, of which the witnesses have a view.
func (f *fake) set(by time.Duration) {
	f.wall = f.wall.Add(by)
	for i := range f.witnesses {
		f.witnesses[i] -= by
	}
}

// reboot takes a while, by a wall clock that is not set.
func (f *fake) reboot(off time.Duration) {
	f.boot, f.up, f.wall = f.boot+"+", time.Minute, f.wall.Add(off)
	f.start()
}

var steps = []time.Duration{time.Hour, 40 * day, 365 * day, -time.Hour, -40 * day}

func TestStepsWhileRunning(t *testing.T) {
	for _, witnesses := range []int{0, 1, 3} {
		for _, by := range steps {
			t.Run(by.String(), func(t *testing.T) {
				f := newFake(t)
				f.witnesses = make([]time.Duration, witnesses)
				f.pass(time.Hour)
				right := f.wall
				f.set(by)
				held := f.pass(20 * time.Minute)
				if now := f.Now(); !now.Equal(right.Add(20 * time.Minute)) {
					t.Errorf("what arrives is at %v, want %v", now, right.Add(20*time.Minute))
				}
				if f.Cutoff().After(right.Add(20 * time.Minute)) {
					t.Errorf("removing goes on to %v", f.Cutoff())
				}
				if far := by.Abs() > day || witnesses > 0; (held != "") != far || far && f.Cutoff().After(right) {
					t.Errorf("held %q, cutoff %v", held, f.Cutoff())
				}
				f.start() // without a reboot, what has elapsed is known
				f.set(-by)
				if held := f.pass(time.Minute); held != "" {
					t.Errorf("the clock is right again: held %q", held)
				}
				if want := right.Add(21 * time.Minute); !f.Now().Equal(want) || !f.Cutoff().Equal(want) {
					t.Errorf("now %v, cutoff %v, want %v", f.Now(), f.Cutoff(), want)
				}
			})
		}
	}
}

// TestIssuedWhileBehind: nobody contradicts a clock that is set back, and it is set right before Step runs again.
func TestIssuedWhileBehind(t *testing.T) {
	f := newFake(t)
	f.pass(time.Hour)
	right := f.wall
	f.set(-time.Hour)
	if issued := f.Issued(); issued.Before(right) {
		t.Errorf("certificates are made at %v, while it is %v", issued, right)
	}
	f.set(time.Hour)
	if issued := f.Issued(); !issued.Equal(right) {
		t.Errorf("certificates are made at %v, want %v", issued, right)
	}
}

func TestStepsWhileStopped(t *testing.T) {
	for _, by := range steps {
		for _, reboot := range []bool{false, true} {
			t.Run(by.String(), func(t *testing.T) {
				f := newFake(t)
				f.witnesses = []time.Duration{0, 0}
				f.pass(time.Hour)
				right := f.wall
				f.set(by)
				if reboot {
					f.reboot(0)
				} else {
					f.start()
				}
				if now := f.Now(); now.Before(right) {
					t.Errorf("what arrives is at %v, before %v", now, right)
				}
				held := f.pass(time.Minute)
				if held == "" || f.Cutoff().After(right) || !strings.Contains(held, "2 of 2") {
					t.Errorf("held %q, cutoff %v after %v", held, f.Cutoff(), right)
				}
				if reboot && f.Issued().After(right.Add(time.Minute)) || !reboot && !f.Issued().Equal(f.Now()) {
					t.Errorf("certificates are made at %v", f.Issued())
				}
				f.set(-by)
				if held := f.pass(time.Minute); held != "" || !f.Cutoff().Equal(right.Add(2*time.Minute)) || !f.Issued().Equal(f.wall) {
					t.Errorf("the clock is right again: held %q, cutoff %v", held, f.Cutoff())
				}
			})
		}
	}
}

// TestOff: a machine that was off catches up once other hosts agree, or an operator does; after a
// short time, if there is no other host.
func TestOff(t *testing.T) {
	tests := []struct {
		name      string
		off       time.Duration
		witnesses []time.Duration
		accept    bool
		wait      time.Duration
		held      string
	}{
		{"others agree", 40 * day, []time.Duration{time.Second, -time.Second, 40 * day}, false, time.Minute, ""},
		{"others disagree", 40 * day, []time.Duration{-40 * day, -40 * day, 0}, false, time.Hour, "2 of 3"},
		{"others are divided", 40 * day, []time.Duration{-40 * day, 0}, false, time.Hour, "no agent"},
		{"nobody is there", 40 * day, nil, false, time.Hour, "off for 960h0m0s"},
		{"nobody is there, an operator is", 40 * day, nil, true, time.Minute, ""},
		{"others disagree with an operator", 40 * day, []time.Duration{-40 * day}, true, time.Minute, ""},
		{"nobody is there, a night", 9 * time.Hour, nil, false, 10 * time.Minute, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			f := newFake(t)
			f.pass(time.Hour)
			right := f.wall
			f.reboot(test.off)
			f.witnesses = test.witnesses
			if test.accept {
				if _, err := Accept(f.folder, f.wall); err != nil {
					t.Fatal(err)
				}
			}
			held := f.pass(test.wait)
			if test.held != "" {
				if !strings.Contains(held, test.held) || !strings.Contains(held, "pillion-server accept-clock") || f.Cutoff().After(right) {
					t.Errorf("held %q, cutoff %v", held, f.Cutoff())
				}
			} else if held != "" || !f.Cutoff().Equal(f.wall) {
				t.Errorf("held %q, cutoff %v, want %v", held, f.Cutoff(), f.wall)
			}
			if _, err := os.Stat(filepath.Join(f.folder, acceptName)); err == nil {
				t.Error("the confirmation would count again")
			}
			if test.accept {
				if held := f.pass(time.Hour); held != "" || !f.Issued().Equal(f.wall) {
					t.Errorf("an hour later: held %q, certificates are made at %v", held, f.Issued())
				}
				if f.set(40 * day); f.pass(time.Minute) == "" {
					t.Error("a step after it is not held")
				}
			}
		})
	}
}

// TestNightIsNotBelievedAtOnce: other hosts may still report.
func TestNightIsNotBelievedAtOnce(t *testing.T) {
	f := newFake(t)
	f.pass(time.Hour)
	right := f.wall
	f.reboot(9 * time.Hour)
	f.pass(5 * time.Minute)
	if want := right.Add(5 * time.Minute); !f.Cutoff().Equal(want) {
		t.Errorf("cutoff %v, want %v", f.Cutoff(), want)
	}
}

// TestPausedMachine: the time of a pause does not elapse for a virtual machine.
func TestPausedMachine(t *testing.T) {
	for _, test := range []struct {
		witnesses []time.Duration
		behind    time.Duration
	}{{[]time.Duration{0}, 0}, {nil, 9 * time.Hour}} {
		f := newFake(t)
		f.witnesses = test.witnesses
		f.pass(time.Hour)
		f.wall = f.wall.Add(9 * time.Hour)
		if held := f.pass(time.Minute); held != "" || f.wall.Sub(f.Cutoff()) != test.behind {
			t.Errorf("%d others: held %q, the cutoff is behind by %v, want %v", len(test.witnesses), held, f.wall.Sub(f.Cutoff()), test.behind)
		}
	}
}

// TestNewClock: the first start has only the wall clock, and what the archive tells.
func TestNewClock(t *testing.T) {
	f := newFake(t)
	last := f.wall.Add(-40 * day)
	f.Begin(last)
	if held := f.pass(time.Minute); held == "" || !f.Cutoff().Equal(last) {
		t.Errorf("held %q, cutoff %v, want %v", held, f.Cutoff(), last)
	}
	f.Begin(last.Add(-day)) // it is not new any more
	f.witnesses = []time.Duration{0}
	if held := f.pass(time.Minute); held != "" || !f.Cutoff().Equal(f.wall) {
		t.Errorf("held %q, cutoff %v, want %v", held, f.Cutoff(), f.wall)
	}
}

// TestSlew: a drift is followed slowly, in both directions.
func TestSlew(t *testing.T) {
	for _, by := range []time.Duration{time.Second, -time.Second} {
		f := newFake(t)
		f.witnesses = []time.Duration{0}
		f.pass(time.Minute)
		before := f.Now()
		f.wall = f.wall.Add(by)
		f.pass(time.Minute)
		if moved := f.Now().Sub(before) - time.Minute; moved != by/time.Second*600*time.Millisecond {
			t.Errorf("in a minute the clock has moved by %v", moved)
		}
		f.pass(time.Minute)
		if !f.Now().Equal(f.wall) {
			t.Errorf("the clock is at %v, want %v", f.Now(), f.wall)
		}
	}
}

func TestDamagedFile(t *testing.T) {
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, fileName), []byte(`{"time":`), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := Open(Options{Folder: folder})
	if said := store.Notices(folder); err != nil || len(said) != 1 || time.Since(c.Now()).Abs() > time.Hour {
		t.Fatalf("now %v, said %q, error %v", c.Now(), said, err)
	}
	if _, err := c.Step(); err != nil {
		t.Fatal(err)
	}
	if again, err := Open(Options{Folder: folder}); err != nil || again.New() || len(store.Notices(folder)) != 0 {
		t.Errorf("it is not saved: %v", err)
	}
}
