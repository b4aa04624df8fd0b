package router

import (
	"maps"
	"slices"

	"pillion.dev/probe/hook"
)

// Cost is what all programs cost since they were loaded, where the kernel counts it.
func (r *Router) Cost() (cost hook.Cost, counted bool, err error) {
	return hook.CostOf(slices.Collect(maps.Values(r.collection.Programs))...)
}
