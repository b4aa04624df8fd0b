package clock

import (
	"sync/atomic"
	"time"
)

// Injection makes the clock that this package reads differ from the host's clock: tests of several
// hosts on one kernel give each a clock of its own.
type Injection struct {
	// From is when the clock begins to drift, by SkewPPB ns per second.
	From    time.Time
	SkewPPB int64
	// Step is added at StepAt. Silent: the step is in no reading of ReadBase, as if the clock had
	// been set while nobody looked.
	Step   time.Duration
	StepAt time.Time
	Silent bool
}

var injected atomic.Pointer[Injection]

// Inject applies to all later readings of this process.
func Inject(i Injection) { injected.Store(&i) }

// Injected reports whether the clock differs from the host's.
func Injected() bool { return injected.Load() != nil }

// Offset is what the injection adds to the host's clock at a time.
func (i *Injection) Offset(at time.Time) time.Duration {
	if i == nil {
		return 0
	}
	offset := i.step(at)
	if since := at.Sub(i.From); since > 0 {
		offset += time.Duration(since.Seconds() * float64(i.SkewPPB))
	}
	return offset
}

func (i *Injection) step(at time.Time) time.Duration {
	if i == nil || i.Step == 0 || at.Before(i.StepAt) {
		return 0
	}
	return i.Step
}

// reported is the part of the offset that a step of the clock makes known.
func (i *Injection) reported(at time.Time) time.Duration {
	if i == nil || i.Silent {
		return 0
	}
	return i.step(at)
}
