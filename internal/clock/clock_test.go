package clock

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestOffsetIsWhatTheTwoClocksShow(t *testing.T) {
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
