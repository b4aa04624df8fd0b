package runner

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"pillion.dev/probe/destination"
	"pillion.dev/probe/flow"
)

// mismatchLasts is how long a source counts as one that numbers other flows after the last mark
// that showed it.
const mismatchLasts = time.Minute

// otherFlows are the peers of the task whose marks number flows by other fields than it, and by
// which.
func (r *subscriber) otherFlows(mismatches []destination.Mismatch) map[string]string {
	var others map[string]string
	for _, m := range mismatches {
		agent := r.task.agentOf(flow.Key{Src: m.Source, Ingress: m.Ingress})
		if agent == "" || m.Theirs == r.task.Fields() || time.Since(m.Seen) > mismatchLasts {
			continue
		}
		if others == nil {
			others = map[string]string{}
		}
		others[agent] = m.Theirs.String()
	}
	return others
}

// otherFlowsText says so.
func (r *subscriber) otherFlowsText(mismatches []destination.Mismatch) string {
	var texts []string
	others := r.otherFlows(mismatches)
	for _, agent := range slices.Sorted(maps.Keys(others)) {
		texts = append(texts, fmt.Sprintf("%s (%s)", agent, others[agent]))
	}
	return fmt.Sprintf("some marks are not measured, since their source numbers flows by other fields than this session's (%s): %s",
		r.task.Fields(), strings.Join(texts, ", "))
}

// warn says once of each source that it numbers other flows.
func (d *deviceDestination) warn(mismatches []destination.Mismatch) {
	for _, m := range mismatches {
		if d.warned[m.Source] {
			continue
		}
		if d.warned == nil {
			d.warned = map[netip.Addr]bool{}
		}
		d.warned[m.Source] = true
		d.log.Warn(m.String())
	}
}
