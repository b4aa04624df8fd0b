package agent

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"pillion.dev/measure/module"
	"pillion.dev/probe/destination"
)

// moduleFigures are the figures of the modules in a row, by module and column; null without a
// value.
func moduleFigures(states destination.States) map[string]map[string]any {
	if len(states) == 0 {
		return nil
	}
	figures := map[string]map[string]any{}
	for d, state := range states {
		figures[d.Name] = map[string]any{}
		for i, value := range d.Values(state) {
			if n, ok := value.Number(); ok {
				figures[d.Name][d.Columns[i].Name] = n
			} else {
				figures[d.Name][d.Columns[i].Name] = nil
			}
		}
	}
	return figures
}

// moduleText is the same as text: a line for each module.
func moduleText(states destination.States) string {
	described := slices.SortedFunc(maps.Keys(states), func(a, b *module.Descriptor) int { return strings.Compare(a.Name, b.Name) })
	var b strings.Builder
	for _, d := range described {
		var words []string
		for i, value := range d.Values(states[d]) {
			if n, ok := value.Number(); ok {
				words = append(words, strings.TrimSpace(fmt.Sprintf("%s %.6g %s", d.Columns[i].Name, n, d.Columns[i].Unit)))
			}
		}
		fmt.Fprintf(&b, "    %s: %s\n", d.Name, strings.Join(words, ", "))
	}
	return b.String()
}
