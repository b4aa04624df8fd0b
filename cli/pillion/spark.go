package pillion

import "math"

var sparkBlocks = []rune("▁▂▃▄▅▆▇█")

// sparkline draws the last width values, each between the least and the largest
// of these; NaN is a gap.
func sparkline(values []float64, width int) string {
	if width <= 0 {
		return ""
	}
	values = values[max(0, len(values)-width):]
	low, high := math.Inf(1), math.Inf(-1)
	for _, v := range values {
		if !math.IsNaN(v) {
			low, high = min(low, v), max(high, v)
		}
	}
	out := make([]rune, 0, len(values))
	for _, v := range values {
		switch {
		case math.IsNaN(v):
			out = append(out, ' ')
		case high <= low:
			out = append(out, sparkBlocks[0])
		default:
			at := int((v - low) / (high - low) * float64(len(sparkBlocks)))
			out = append(out, sparkBlocks[min(at, len(sparkBlocks)-1)])
		}
	}
	return string(out)
}
