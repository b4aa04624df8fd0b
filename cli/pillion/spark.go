package pillion

import "math"

// historyMax is how many values a sparkline can show.
const historyMax = 60

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

// columnsChart draws values as columns, over several lines; NaN is a gap.
func columnsChart(values []float64, low, high float64, rows int) []string {
	lines := make([]string, rows)
	steps := len(sparkBlocks)
	for y := range lines {
		line := make([]rune, len(values))
		for x, v := range values {
			line[x] = ' '
			if math.IsNaN(v) {
				continue
			}
			height := 1 // of what is measured, in eighths of a line
			if high > low {
				height = max(1, int(math.Round((v-low)/(high-low)*float64(rows*steps))))
			}
			if over := height - (rows-1-y)*steps; over > 0 {
				line[x] = sparkBlocks[min(over, steps)-1]
			}
		}
		lines[y] = string(line)
	}
	return lines
}

func sparkTitle(width int) string {
	if width == 0 {
		return ""
	}
	return "P50 OVER TIME"
}
