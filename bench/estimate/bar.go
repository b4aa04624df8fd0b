package estimate

import "fmt"

// Bar compares a figure with its target.
type Bar struct {
	Name     string   `json:"name"`
	Sense    string   `json:"sense"` // <= or >=
	Target   float64  `json:"target"`
	Estimate Estimate `json:"estimate"`
	Verdict  Verdict  `json:"verdict"`
}

// AtMost is a bar that the figure is not to exceed.
func AtMost(name string, target float64, e Estimate) Bar {
	return Bar{name, "<=", target, e, e.AtMost(target)}
}

// AtLeast is a bar that the figure is to reach.
func AtLeast(name string, target float64, e Estimate) Bar {
	return Bar{name, ">=", target, e, e.AtLeast(target)}
}

// Claim is a statement of a paper, and what repeating its experiment shows of it.
type Claim struct {
	Experiment string   `json:"experiment"` // as the paper numbers it, such as E1
	Claim      string   `json:"claim"`
	Verdict    string   `json:"verdict"` // confirmed, refuted or undecided
	Estimate   Estimate `json:"estimate"`
	Text       string   `json:"text"` // what the figure is, and the rule
}

// NewClaim judges a claim by the verdict on its rule, which is part of text.
func NewClaim(experiment, claim string, v Verdict, e Estimate, text string) Claim {
	said := map[Verdict]string{Met: "confirmed", Missed: "refuted", Undecided: "undecided"}[v]
	return Claim{experiment, claim, said, e, text}
}

// ClaimAtLeast is a claim that holds if the figure, which rule describes, reaches a value.
func ClaimAtLeast(experiment, claim string, least float64, e Estimate, rule string) Claim {
	return NewClaim(experiment, claim, e.AtLeast(least), e, fmt.Sprintf("%s, at least %g", rule, least))
}

// ClaimAtMost is a claim that holds if the figure does not exceed a value.
func ClaimAtMost(experiment, claim string, most float64, e Estimate, rule string) Claim {
	return NewClaim(experiment, claim, e.AtMost(most), e, fmt.Sprintf("%s, at most %g", rule, most))
}
