package clock

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestOffsetIsTheDifferenceOfTheClocks(t *testing.T) {
	state, err := Read()
	if err != nil {
		t.Fatal(err)
	}
	var utc, tai unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_REALTIME, &utc); err != nil {
		t.Fatal(err)
	}
	if err := unix.ClockGettime(unix.CLOCK_TAI, &tai); err != nil {
		t.Fatal(err)
	}
	apart := time.Duration(tai.Nano() - utc.Nano())
	if got := apart.Round(time.Second); got != state.TAIOffset {
		t.Errorf("TAIOffset is %v, the clocks are %v apart", state.TAIOffset, got)
	}
	if state.MaxError < 0 {
		t.Errorf("MaxError is %v, want zero or more", state.MaxError)
	}
}

func TestTickIsOneOfTheKernelsChoices(t *testing.T) {
	tick, err := Tick()
	if err != nil {
		t.Fatal(err)
	}
	if tick < 500*time.Microsecond || tick > 10*time.Millisecond {
		t.Errorf("Tick is %v, want what 100 to 2000 Hz give", tick)
	}
}

func TestStepSince(t *testing.T) {
	const us = time.Microsecond
	for _, test := range []struct {
		name           string
		earlier, later Base
		want           time.Duration
	}{
		{"none", Base{time.Hour, us}, Base{time.Hour, us}, 0},
		{"within the uncertainty", Base{time.Hour, us}, Base{time.Hour + 2*us, us}, 0},
		{"forward", Base{time.Hour, us}, Base{time.Hour + 10*time.Second, us}, 10 * time.Second},
		{"backward", Base{time.Hour, us}, Base{time.Hour - time.Millisecond, us}, -time.Millisecond},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := test.later.StepSince(test.earlier); got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

func TestBaseIsTheDistanceOfTheClocks(t *testing.T) {
	base, err := ReadBase()
	if err != nil {
		t.Fatal(err)
	}
	var steady unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &steady); err != nil {
		t.Fatal(err)
	}
	apart := time.Since(time.Unix(0, steady.Nano()+int64(base.Distance)))
	if apart.Abs() > time.Minute { // detects a wrong sign or clock
		t.Errorf("the clock of day differs by %v from the steady one and %v", apart, base)
	}
}
