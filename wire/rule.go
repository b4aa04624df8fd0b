package wire

import "pillion.dev/wire/fivetuple"

// Limits of a source on one interface.
const (
	RulesMax    = 64 // RULES_MAX of probe/bpf/rule.h; a filter needs one for each pair of prefixes
	PoliciesMax = 16 // POLICIES_MAX of probe/source/policy.h
)

// Rule has a source mark the packets that its filter matches by a policy, given as an index.
// The first rule that matches a packet counts.
type Rule struct {
	fivetuple.Filter
	Policy int
}
