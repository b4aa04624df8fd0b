// Package search chooses the trials that find what a network device can carry, as testers
// do: the highest load without loss (throughput and back-to-back frames, RFC 2544 sections
// 26.1 and 26.4), the loss at falling loads (26.3), and the delays and their variation
// (26.2; RFC 8219 sections 7.2 and 7.3). It is arithmetic: what a trial does is up to the
// caller.
package search

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// Verdict of a trial.
type Verdict string

// Verdicts.
const (
	Passed Verdict = "passed" // not more loss than accepted
	Lossy  Verdict = "lossy"
	// Invalid: the sender did not offer the load, so the trial says nothing of the device.
	Invalid Verdict = "invalid"
)

// Limit says what keeps a result from being higher.
type Limit string

// Limits.
const (
	ByDevice  Limit = "device"  // it lost frames at the next higher load
	BySender  Limit = "sender"  // it cannot offer the next higher load: the device may carry more
	ByMaximum Limit = "maximum" // the highest load that was allowed passed
)

// Range is what a search may try. A load is a rate, or a number of frames.
type Range struct {
	// Most is the highest load, which is tried first; Least the lowest that is worth a
	// trial. Below it the result is 0.
	Least, Most float64
	// Resolution ends the search when the result and the next load that did not pass
	// differ by this share of the latter.
	Resolution float64
	// Whole restricts loads to whole numbers.
	Whole bool
}

// Result of a search.
type Result struct {
	// Load is the highest that passed twice in a row and that the search tried; 0: none
	// passed.
	Load float64 `json:"load"`
	// Above is the lowest load above it that did not pass; 0 if all did.
	Above  float64 `json:"above"`
	Limit  Limit   `json:"limit"`
	Trials int     `json:"trials"`
	// Passed is the highest load that passed, once or twice, in a search that an error ended;
	// it has no Load.
	Passed float64 `json:"passed,omitempty"`
}

// ErrRange marks a range that cannot be searched.
var ErrRange = errors.New("invalid search")

// attempts is how many trials of a load may be invalid before the sender counts as unable to
// offer it.
const attempts = 3

// Highest searches for the highest load that passes, by bisection. A load must pass twice
// before it is the result: where loss is rare or does not grow with the load, one lucky
// trial decides nothing, and the search continues below.
func (r Range) Highest(trial func(load float64) (Verdict, error)) (Result, error) {
	if !(r.Least > 0) || !(r.Most >= r.Least) || math.IsInf(r.Most, 0) || !(r.Resolution > 0) || r.Resolution >= 1 {
		return Result{}, fmt.Errorf("%w: loads from %g to %g, resolution %g", ErrRange, r.Least, r.Most, r.Resolution)
	}
	s := state{Range: r, trial: trial}
	for load := r.Most; ; load = s.middle() {
		if err := s.try(load); err != nil {
			return s.soFar(), err
		}
		for s.isNarrow() {
			if s.top() == 0 || s.confirmed {
				s.Load = s.top()
				return s.Result, nil
			}
			if err := s.confirm(); err != nil {
				return s.soFar(), err
			}
		}
	}
}

// state of a search: the result's Above and Limit belong to the lowest load that did not
// pass.
type state struct {
	Range
	Result
	trial     func(float64) (Verdict, error)
	passed    []float64 // ascending, all below Above
	confirmed bool      // the highest of them passed twice
}

// soFar is what is known of a search that an error of a trial ended.
func (s *state) soFar() Result {
	s.Passed = s.top()
	return s.Result
}

func (s *state) top() float64 {
	if len(s.passed) == 0 {
		return 0
	}
	return s.passed[len(s.passed)-1]
}

// isNarrow reports whether no load between the highest that passed and the lowest that did
// not is worth a trial.
func (s *state) isNarrow() bool {
	if s.Above == 0 {
		return s.top() == s.Most
	}
	if s.Whole && s.Above-s.top() <= 1 || s.top() == 0 && s.Above <= s.Least {
		return true
	}
	return s.top() > 0 && s.Above-s.top() <= s.Resolution*s.Above
}

func (s *state) middle() float64 {
	load := (max(s.top(), 0) + s.Above) / 2
	if s.top() == 0 {
		load = max(load, s.Least)
	}
	if s.Whole {
		load = math.Floor(load)
	}
	return load
}

// once runs trials of a load until one is valid.
func (s *state) once(load float64) (v Verdict, err error) {
	for range attempts {
		s.Trials++
		if v, err = s.trial(load); err != nil || v != Invalid {
			break
		}
	}
	return v, err
}

func (s *state) try(load float64) error {
	v, err := s.once(load)
	if err != nil {
		return err
	}
	if v == Passed {
		s.passed, s.confirmed = append(s.passed, load), false
		if s.Above == 0 {
			s.Limit = ByMaximum
		}
		return nil
	}
	s.fail(load, v)
	return nil
}

// confirm tries the highest load that passed again. If it does not pass, it is too high.
func (s *state) confirm() error {
	load := s.top()
	v, err := s.once(load)
	if err != nil {
		return err
	}
	if s.confirmed = v == Passed; !s.confirmed {
		s.passed = slices.Delete(s.passed, len(s.passed)-1, len(s.passed))
		s.fail(load, v)
	}
	return nil
}

func (s *state) fail(load float64, v Verdict) {
	s.Above, s.Limit = load, ByDevice
	if v == Invalid {
		s.Limit = BySender
	}
}

// Step is a load of Falling and the share of frames lost at it.
type Step struct {
	Load float64 `json:"load"`
	// Share is the share of the highest load.
	Share float64 `json:"share"`
	Loss  float64 `json:"loss"`
	// Valid is false if the sender did not offer the load.
	Valid bool `json:"valid"`
}

// Falling measures the loss at the highest load and at loads that fall by a share of it, until two
// in a row have no loss (RFC 2544, 26.3, which asks for shares of 10 % or less).
func Falling(most, share float64, trial func(load float64) (loss float64, v Verdict, err error)) (steps []Step, err error) {
	if !(most > 0) || math.IsInf(most, 0) || !(share > 0) || share > 1 {
		return nil, fmt.Errorf("%w: loads from %g in steps of %g of it", ErrRange, most, share)
	}
	without := 0
	for i := 0; without < 2; i++ {
		left := 1 - float64(i)*share
		if left < share/2 {
			break
		}
		s := Step{Load: most * left, Share: left}
		var v Verdict
		for range attempts {
			if s.Loss, v, err = trial(s.Load); err != nil {
				return steps, err
			}
			if v != Invalid {
				break
			}
		}
		s.Valid = v != Invalid
		without++
		if !s.Valid || s.Loss > 0 {
			without = 0
		}
		steps = append(steps, s)
	}
	return steps, nil
}
