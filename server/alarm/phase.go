package alarm

import "time"

// phase is where the condition of a rule is for one pair, flow or agent: it does not hold, holds for less than
// the rule's time, or the alarm fires.
type phase struct {
	// pending is when the condition began to hold, or zero.
	pending time.Time
	// since is when the alarm began, or zero; calm when the condition ceased to hold, or zero.
	since, calm time.Time
	// worst is the largest share of bad packets.
	worst float64
}

// firing reports whether the alarm has begun and not ended.
func (p *phase) firing() bool { return !p.since.IsZero() }

// turn is what a new figure changed.
type turn int

const (
	stays turn = iota
	begins
	ends
)

// judge takes what is known at a time: whether the condition holds, and whether it is clearly over.
func (p *phase) judge(rule *Rule, holds, over bool, at time.Time) turn {
	if !p.firing() {
		if !holds {
			p.pending = time.Time{}
			return stays
		}
		if p.pending.IsZero() {
			p.pending = at
		}
		if at.Sub(p.pending) < rule.For {
			return stays
		}
		p.since, p.calm = p.pending, time.Time{}
		return begins
	}
	switch {
	case !over:
		p.calm = time.Time{}
	case p.calm.IsZero():
		p.calm = at
	}
	if !p.calm.IsZero() && at.Sub(p.calm) >= rule.KeepFiringFor {
		return ends
	}
	return stays
}

// end makes it one whose condition does not hold.
func (p *phase) end() { *p = phase{} }
