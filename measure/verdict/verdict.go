// Package verdict compares the interval of what was measured with a target.
package verdict

// Verdict is the result of a comparison; empty: there was no target.
type Verdict string

// The verdicts. Undecided means that the interval holds values that meet the target and values that miss it, or is not
// known: more values are needed, nothing is shown.
const (
	Met       Verdict = "met"
	Missed    Verdict = "missed"
	Undecided Verdict = "undecided"
)

// Of compares an interval with a target that values from least to most meet; an infinite bound is none, and NaN an
// unknown end of the interval.
func Of(low, high, least, most float64) Verdict {
	switch {
	case low >= least && high <= most:
		return Met
	case high < least || low > most:
		return Missed
	}
	return Undecided
}
