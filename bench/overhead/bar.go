package main

import (
	"fmt"

	"pillion.dev/bench/estimate"
)

// bar is a target for an arm: a minimum ratio of its rate by CPU time to that of another arm
// in the same block, or a maximum cost of a program above an empty one.
type bar struct {
	what    string
	arm     string
	against string // an arm; empty: no program, if role is set
	role    string // of a program: source or destination
	cells   func(c cell) bool
	target  float64 // a ratio, or ns
}

func isUDP(c cell) bool      { return !c.programs && c.traffic.isUDP() }
func isShort(c cell) bool    { return isUDP(c) && c.traffic.payload == 56 }
func isStream(c cell) bool   { return !c.programs && c.traffic.isStream() }
func isRequests(c cell) bool { return !c.programs && c.traffic.tcp == requests }
func isTraffic(c cell) bool  { return !c.programs }
func isPrograms(c cell) bool { return c.programs }

const (
	numbered = "every packet numbered, 1 in 16 stamped"
	stamped  = "every packet stamped"
	counted  = "every packet counted, 1 in 16 marked"
	cheapest = "cheapest with one-way delay and loss"
)

// bars has every target, except those against peers, which barsOf adds.
var bars = []bar{
	{numbered, armAgents, armNone, "", isUDP, 0.93},
	{numbered, armAgents, armEmpty, "", isUDP, 0.96},
	{stamped, armStampAll, armNone, "", isUDP, 0.90},
	{counted, armSparse, armNone, "", isUDP, 0.95},
	{numbered, armAgents, armNone, "", isStream, 0.95},
	{numbered, armAgents, armNone, "", isRequests, 0.94},
	{"1 packet in 10 marked", "agents-delay-loss-1-in-10", armNone, "", isShort, 0.98},
	{"1 packet in 10 marked, delay", "agents-delay-1-in-10", armNone, "", isShort, 0.98},
	{"1 packet in 10 marked, loss", "agents-loss-1-in-10", armNone, "", isShort, 0.98},
	{"program at the source above an empty one", armAgents, "", roleSource, isPrograms, 110},
	{"program at the destination above an empty one", armAgents, "", roleDestination, isPrograms, 40},
	{"authentication at the source", armKeyed, armAgents, roleSource, isPrograms, 60},
	{"authentication at the destination", armKeyed, armAgents, roleDestination, isPrograms, 60},
	{"authentication at the source, every packet stamped", armKeyedAll, armStampAll, roleSource, isPrograms, 60},
	{"authentication at the destination, every packet stamped", armKeyedAll, armStampAll, roleDestination, isPrograms, 60},
}

// barsOf returns the bars of an outcome. Pillion has to be cheaper than every other tool that
// measures one-way delay and loss.
func barsOf(o outcome) []bar {
	var found []bar
	for _, b := range bars {
		if b.cells(o.cell) && o.has(b.arm) && (b.role != "" && b.against == "" || o.has(b.against)) {
			found = append(found, b)
		}
	}
	for _, a := range o.arms {
		if a.delay && a.loss && !a.agents && o.has(armAgents) {
			found = append(found, bar{cheapest, armAgents, a.name, "", isTraffic, 1})
		}
	}
	return found
}

// barReport is a bar with its figures.
type barReport struct {
	What    string `json:"what"`
	Arm     string `json:"arm"`
	Against string `json:"against"`
	// Sign is ≥ or ≤: the figure is to be at least, or at most, the target.
	Sign    string            `json:"sign"`
	Target  float64           `json:"target"`
	Figure  estimate.Estimate `json:"figure"`
	Verdict estimate.Verdict  `json:"verdict"`
	// Doubt is the reason why a good figure does not decide.
	Doubt string `json:"doubt,omitempty"`
}

func (b bar) judge(o outcome) barReport {
	r := barReport{What: b.what, Arm: b.arm, Against: b.against, Sign: "≥", Target: b.target}
	if b.role != "" {
		if r.Sign = "≤"; b.against == "" {
			r.Against = "empty program"
		}
		r.Figure = o.estimate(func(k block) (float64, bool) { return k.above(b.arm, b.against, b.role) })
		r.Verdict = r.Figure.AtMost(b.target)
	} else {
		r.Figure = o.estimate(func(k block) (float64, bool) { return k.ratio(b.arm, b.against) })
		r.Verdict = r.Figure.AtLeast(b.target)
	}
	if r.Verdict == estimate.Met {
		if r.Doubt = o.doubt(b.arm); r.Doubt != "" {
			r.Verdict = estimate.Undecided
		}
	}
	if r.Verdict == estimate.Undecided && r.Doubt == "" && !r.Figure.IsDecisive() {
		r.Doubt = fmt.Sprintf("too few blocks (%d)", r.Figure.Values)
	}
	return r
}

// ratio is the rate of an arm over that of another, by CPU time; below 1 is a cost.
func (b block) ratio(arm, against string) (float64, bool) {
	return b.compare(arm, against, sample.byCPU)
}

// compare divides the rates of two arms. That of no treatment is the mean over its two runs,
// except for the second of them, which shows the noise.
func (b block) compare(arm, against string, rate func(sample) float64) (float64, bool) {
	treated, ok := b.of(arm)
	base, found := b.of(against)
	if !ok || !found {
		return 0, false
	}
	perUnit := 1 / rate(base.sample)
	if again, ok := b.of(armNoneAgain); ok && against == armNone && arm != armNoneAgain {
		perUnit = (perUnit + 1/rate(again.sample)) / 2
	}
	return rate(treated.sample) * perUnit, true
}

// doubt warns of an arm that is cheap because packets were not marked.
func (o outcome) doubt(arm string) string {
	share, known := o.markedShare(arm)
	if !known || share > 0.9 {
		return ""
	}
	return fmt.Sprintf("only %.2g of the packets due were marked", share)
}

// markedShare is the minimum share of packets marked among those that the sampling selects,
// on UDP, where the number sent is known; warm-up makes it exceed 1 a little.
func (o outcome) markedShare(name string) (least float64, known bool) {
	for _, a := range o.arms {
		if a.name != name || !a.agents {
			continue
		}
		for _, b := range o.blocks {
			r, ok := b.of(name)
			if !ok || r.UDP == nil {
				continue
			}
			share := r.Marked * float64(a.every) / float64(r.UDP.Packets)
			if !known || share < least {
				least, known = share, true
			}
		}
	}
	return least, known
}

func (o outcome) has(name string) bool {
	for _, a := range o.arms {
		if a.name == name {
			return true
		}
	}
	return false
}

// estimate is over the blocks in which a value is known.
func (o outcome) estimate(value func(b block) (float64, bool)) estimate.Estimate {
	var values []float64
	for _, b := range o.blocks {
		if v, ok := value(b); ok {
			values = append(values, v)
		}
	}
	return estimate.Of(values)
}
