// Package verdict compares a measured interval with a target.
package verdict

// Verdict is the result of a comparison; empty: there was no target.
type Verdict string

// The verdicts. Undecided means that the interval contains values that meet the target and values that miss it, or
// is unknown: more measurements are needed.
const (
	Met       Verdict = "met"
	Missed    Verdict = "missed"
	Undecided Verdict = "undecided"
)

// Of compares the interval from low to high with a target, which values from least to most meet. An infinite least
// or most is no bound; NaN as low or high is an unknown end of the interval.
func Of(low, high, least, most float64) Verdict {
	switch {
	case low >= least && high <= most:
		return Met
	case high < least || low > most:
		return Missed
	}
	return Undecided
}
