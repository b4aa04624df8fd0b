package session

import (
	"fmt"
	"slices"
	"time"

	"pillion.dev/wire"
)

// hasBlocks reports whether an encoding of the session has packets carry the colour of a block.
func (s Spec) hasBlocks() bool {
	list, err := wire.ParseEncodings(s.Encoding)
	return err == nil && slices.ContainsFunc(list, func(e wire.Encoding) bool { return e.Carries()&wire.CarriesBlock != 0 })
}

// blocks checks the length of blocks, and what they do not go with.
func (p *problems) blocks(s Spec) {
	if time.Duration(s.Block)%time.Millisecond != 0 {
		p.add("block", "%v is not a whole number of milliseconds", s.Block)
	}
	if !s.hasBlocks() {
		return
	}
	if s.samples() {
		p.add("sampling", "%v cannot be combined with sampling: all packets of a block have its colour", wire.AltMark)
	}
	if len(s.Transit) > 0 {
		p.add("encoding", "%v does not measure packets to hosts behind agents: remove it from the encodings", wire.AltMark)
	}
}

// warnedPairs is how many pairs of a session a warning names.
const warnedPairs = 3

// blockWarnings name the pairs whose clocks do not agree so well that packets arrive in their
// blocks: RFC 9341 has the difference of the clocks and the variation of the delay together stay below half
// a block. Half of that is left to the delay.
func (s Spec) blockWarnings(pairs []Pair, hosts []Host) (warnings []string) {
	if !s.hasBlocks() {
		return nil
	}
	clocks := map[string]Host{}
	for _, h := range hosts {
		clocks[h.Name] = h
	}
	most, more := time.Duration(s.Block)/4, 0
	warned := map[Pair]bool{}
	for _, pair := range pairs {
		a, b := clocks[pair.Source], clocks[pair.Destination]
		back := Pair{Source: pair.Destination, Destination: pair.Source}
		bound := time.Duration(a.Clock.MaxErrorNs + b.Clock.MaxErrorNs)
		if a.Boot == "" || b.Boot == "" || a.Boot == b.Boot || bound <= most || warned[pair] || warned[back] {
			continue
		}
		if warned[pair] = true; len(warnings) == warnedPairs {
			more++
			continue
		}
		warnings = append(warnings, fmt.Sprintf("the clocks of %s and %s may differ by %s (the error bounds of both), more than a quarter of a block of %s: "+
			"marks in %v may have no figures; synchronise the clocks, or use longer blocks (block)", pair.Source, pair.Destination, shortBound(bound), s.Block, wire.AltMark))
	}
	if more > 0 {
		warnings = append(warnings, fmt.Sprintf("so may the clocks of %d other pairs", more))
	}
	return warnings
}

// shortBound is a bound rounded up to three digits or so.
func shortBound(bound time.Duration) string {
	unit := time.Duration(1)
	for bound/unit >= 1000 {
		unit *= 10
	}
	return ((bound + unit - 1) / unit * unit).String()
}

// sameBlocks returns an error if a destination cannot count the marks of both tasks by blocks: a
// colour does not say how long its block is.
func sameBlocks(other, next DestinationTask) error {
	if a, b := other.Block, next.Block; a != 0 && b != 0 && a != b {
		return fmt.Errorf("%w with session %s: different block on the same interface of a destination (existing: %s; new: %s); use the same value, or set an interface for each",
			ErrConflict, other.Session, a, b)
	}
	return nil
}
