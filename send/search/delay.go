package search

import (
	"cmp"
	"slices"

	"pillion.dev/internal/quantity"
)

// Delays summarises the delays of a trial's frames, in nanoseconds. Quantiles are exact, not
// from a histogram: the smallest value that is not exceeded by that share of the frames.
type Delays struct {
	// Frames with a delay.
	Frames int   `json:"frames"`
	Min    int64 `json:"min"`
	// Typical is the median (RFC 8219, 7.2).
	Typical int64   `json:"typical"`
	Mean    float64 `json:"mean"`
	P99     int64   `json:"p99"`
	// Worst is the 99.9th percentile (RFC 8219, 7.2).
	Worst int64 `json:"worst"`
	Max   int64 `json:"max"`
	// PDV is the packet delay variation: Worst less Min (RFC 8219, 7.3.1).
	PDV int64 `json:"pdv"`
	// IPDV is the variation from each frame to the next one, of those sent in a row
	// (RFC 8219, 7.3.2).
	IPDV Variation `json:"ipdv"`
}

// MarshalJSON writes null for what no frame has.
func (d Delays) MarshalJSON() ([]byte, error) {
	type figures Delays
	return quantity.MarshalMeasured(d.Frames > 0, figures(d), "min", "typical", "mean", "p99", "worst", "max", "pdv", "ipdv")
}

// Variation is the distribution of signed differences in nanoseconds.
type Variation struct {
	Min    int64 `json:"min"`
	P1     int64 `json:"p1"`
	Median int64 `json:"median"`
	P99    int64 `json:"p99"`
	Max    int64 `json:"max"`
}

// DelaysOf the frames of a trial in the order of their departures; a negative delay is that
// of a frame without one, because it was lost or not sent.
func DelaysOf(delays []int64) (d Delays) {
	var values, differences []int64
	last := int64(-1)
	for _, v := range delays {
		if v >= 0 {
			values = append(values, v)
			d.Mean += float64(v)
			if last >= 0 {
				differences = append(differences, v-last)
			}
		}
		last = v
	}
	if len(values) == 0 {
		return Delays{}
	}
	slices.Sort(values)
	d.Frames, d.Mean = len(values), d.Mean/float64(len(values))
	d.Min, d.Typical, d.P99 = values[0], Quantile(values, 0.5), Quantile(values, 0.99)
	d.Worst, d.Max = Quantile(values, 0.999), values[len(values)-1]
	d.PDV = d.Worst - d.Min
	if len(differences) > 0 {
		slices.Sort(differences)
		d.IPDV = Variation{
			Min: differences[0], P1: Quantile(differences, 0.01), Median: Quantile(differences, 0.5),
			P99: Quantile(differences, 0.99), Max: differences[len(differences)-1],
		}
	}
	return d
}

// Quantile of sorted values: the smallest that at least the share q of them does not
// exceed.
func Quantile[V cmp.Ordered](sorted []V, q float64) V {
	at := int(q * float64(len(sorted)))
	if float64(at) == q*float64(len(sorted)) && at > 0 {
		at--
	}
	return sorted[min(at, len(sorted)-1)]
}
