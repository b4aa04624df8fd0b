package application

import (
	"fmt"
	"time"
)

// Thresholds of the policy by which clients are asked to send less, as shares of the
// queue's capacity.
const (
	thinAbove = 0.5
	thinBelow = 0.25
	thinEvery = 10 * time.Second
	thinMost  = 1024
)

// Feedback is how applications are asked to send less while the queue is long.
type Feedback string

// The kinds. Clients that do not announce the last two with the key pillion-feedback are
// thinned.
const (
	// FeedbackThin requests every N-th sample; the others are lost.
	FeedbackThin Feedback = "thin"
	// FeedbackSlow requests 1/N of the rate at which the client sent before. The rest waits
	// in the client's buffer: nothing is lost until that is full.
	FeedbackSlow Feedback = "slow"
	// FeedbackAggregate requests, in place of samples, their average, minimum and maximum
	// over N times 100 ms, in streams of their own.
	FeedbackAggregate Feedback = "aggregate"
)

// ParseFeedback reads a Feedback; empty is FeedbackThin.
func ParseFeedback(text string) (Feedback, error) {
	switch f := Feedback(text); f {
	case "":
		return FeedbackThin, nil
	case FeedbackThin, FeedbackSlow, FeedbackAggregate:
		return f, nil
	}
	return "", fmt.Errorf("feedback %q: use thin, slow or aggregate", text)
}

// Thinning is the policy that decides to which fraction, 1 of N, clients are asked to
// reduce what they send. While the queue is over half full, N doubles every 10 s; while it is
// under a quarter full, N halves every 10 s down to 1. The zero value asks for all.
type Thinning struct {
	doubled int // how often
	changed time.Time
}

// N is 1 if all samples are requested.
func (t *Thinning) N() int { return 1 << t.doubled }

// Step takes the current fill level of the queue and reports whether N has changed.
func (t *Thinning) Step(now time.Time, share float64) bool {
	step := 0
	switch {
	case share > thinAbove && t.N() < thinMost:
		step = 1
	case share < thinBelow && t.doubled > 0:
		step = -1
	}
	if step == 0 || !t.changed.IsZero() && now.Sub(t.changed) < thinEvery {
		return false
	}
	t.doubled, t.changed = t.doubled+step, now
	return true
}
