package session

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"pillion.dev/wire/fivetuple"
)

// ErrConflict marks sessions that cannot run at the same time.
var ErrConflict = errors.New("conflict")

// Conflict returns an error if a session cannot run alongside the running ones. An interface has one marking
// program, so sessions that share it and whose packets overlap must agree on how to mark. Peers and filters of
// sources are merged, and so are peers and filters of destinations, as far as they fit.
func Conflict(running []Plan, next Plan) error {
	var faults []error
	for _, agent := range slices.Sorted(maps.Keys(next.Assignments)) {
		var others []SourceTask
		var reading []DestinationTask
		for _, plan := range running {
			if plan.Session != next.Session {
				others = append(others, plan.Assignments[agent].Sources...)
				reading = append(reading, plan.Assignments[agent].Destinations...)
			}
		}
		for _, task := range next.Assignments[agent].Destinations {
			if err := fitsReading(reading, task); err != nil {
				faults = append(faults, fmt.Errorf("%s: %w", agent, err))
			}
		}
		for _, task := range next.Assignments[agent].Sources {
			if err := Fits(others, task); err != nil {
				faults = append(faults, fmt.Errorf("%s: %w", agent, err))
			}
		}
	}
	switch more := len(faults) - 1; {
	case more == 1:
		return fmt.Errorf("%w; likewise on another agent", faults[0])
	case more > 1:
		return fmt.Errorf("%w; likewise on %d other agents", faults[0], more)
	}
	return errors.Join(faults...)
}

// Fits returns an error if an agent cannot mark for one more session. A task without a
// device may use any.
func Fits(others []SourceTask, next SourceTask) error {
	var sharing []SourceTask
	var met []string
	uniform, same := true, true // same: equal filters, so the addresses are in a table without a limit
	for _, other := range others {
		if !mayShare(other.Device, next.Device) {
			continue
		}
		sharing, met = append(sharing, other), append(met, other.Session)
		same = same && slices.Equal(other.Filters, next.Filters)
		if !differ(other, next) {
			continue
		}
		uniform = false
		if err := collide(other, next); err != nil {
			return err
		}
	}
	if uniform && same {
		return nil
	}
	sharing = append(sharing, next)
	if !uniform {
		if _, _, err := Policies(sharing); err != nil {
			return fmt.Errorf("%w with session %s: %w", ErrConflict, strings.Join(met, " and "), err)
		}
		return nil
	}
	if n := countRules(sharing); n > RulesMax {
		return fmt.Errorf("%w with session %s: their filters differ and, combined with the addresses of sources and destinations, need %d rules; "+
			"a source supports %d unless all filters are equal", ErrConflict, strings.Join(met, " and "), n, RulesMax)
	}
	return nil
}

// collide returns an error if some packet is to be marked by both tasks and they do not agree
// how. What both ask of a packet can be more modules than either, and the denser sampling.
func collide(other, next SourceTask) error {
	for _, f := range ways(other, next) {
		if f.a == f.b {
			continue
		}
		theirs, ours, ok := overlap(other, next)
		if !ok {
			return nil
		}
		return fmt.Errorf("%w with session %s: different %s for the same packets (existing: %s, rule %s; new: %s, rule %s); "+
			"use the same value, filters that do not overlap, or an interface for each", ErrConflict, other.Session, f.name, f.a, theirs, f.b, ours)
	}
	return nil
}

// mayShare reports whether two tasks may be on the same interface: one without a device may
// use any.
func mayShare(device, other string) bool {
	if device == "" || other == "" {
		return true
	}
	names := Devices(other)
	return slices.ContainsFunc(Devices(device), func(name string) bool { return slices.Contains(names, name) })
}

// reading is a rule by which a destination reads marks.
type reading struct {
	fivetuple.Filter
	flow fivetuple.Fields // 0: the one set of fields of all its sessions
}

// fitsReading returns an error if an agent cannot tell which marks to read for one more session.
func fitsReading(others []DestinationTask, next DestinationTask) error {
	sharing := slices.DeleteFunc(slices.Clone(others), func(t DestinationTask) bool { return !mayShare(t.Device, next.Device) })
	for _, task := range sharing {
		if err := cmp.Or(sameFlows(task, next), sameBlocks(task, next), sameTags(task, next)); err != nil {
			return err
		}
	}
	differ := slices.ContainsFunc(sharing, func(t DestinationTask) bool {
		return len(t.Amends) == 0 && len(next.Amends) == 0 && t.Fields() != next.Fields()
	})
	rules := map[reading]bool{}
	var met []string
	for _, task := range append(sharing, next) {
		own := task.readings(differ)
		for _, rule := range own {
			rules[rule] = true
		}
		if task.Session != next.Session && len(own) > 0 {
			met = append(met, task.Session)
		}
	}
	if len(rules) <= RulesMax || len(next.readings(differ)) == 0 {
		return nil
	}
	if len(met) == 0 {
		return fmt.Errorf("%w: its destinations have %d addresses and prefixes; a waypoint supports %d", ErrConflict, len(rules), RulesMax)
	}
	return fmt.Errorf("%w with session %s: they have %d different filters; a destination supports %d", ErrConflict,
		strings.Join(met, " and "), len(rules), RulesMax)
}

// readings are the rules of the task. Where the fields of flows differ, one without filters needs one, too.
func (t *DestinationTask) readings(differ bool) []reading {
	var rules []reading
	for _, filter := range t.rules() {
		rules = append(rules, reading{Filter: filter})
	}
	if !differ || len(t.Amends) > 0 {
		return rules
	}
	if len(rules) == 0 {
		rules = make([]reading, 1)
	}
	for i := range rules {
		rules[i].flow = t.Fields()
	}
	return rules
}

// sameFlows returns an error if a destination cannot tell apart the flows of both tasks: marks of
// an aggregate do not say which of the filters their packets match.
func sameFlows(other, next DestinationTask) error {
	if len(other.Amends) > 0 || len(next.Amends) > 0 { // its flows are not counted
		return nil
	}
	if a, b := filtersText(other.Filters), filtersText(next.Filters); other.Fields() == next.Fields() && next.Fields() != fivetuple.All && a != b {
		return fmt.Errorf("%w with session %s: different filters of flows by %s on the same interface of a destination (existing: %s; new: %s); "+
			"use the same value, or set an interface for each", ErrConflict, other.Session, next.Fields(), a, b)
	}
	return nil
}

// sameTags returns an error if one task requires tags of marks that the other wants without: a
// destination tells sessions of a source apart by their filters only, so that it would count forged
// marks for both, or none of those without a tag.
func sameTags(other, next DestinationTask) error {
	if other.Authenticated == next.Authenticated || len(other.Amends) > 0 || len(next.Amends) > 0 {
		return nil
	}
	theirs, ours, ok := someOverlap(other.Filters, next.Filters)
	if !ok {
		return nil
	}
	for _, peer := range next.Peers {
		if slices.ContainsFunc(other.Peers, func(p Peer) bool { return p.Agent == peer.Agent && len(common(p.Ends(), peer.Ends())) > 0 }) {
			return fmt.Errorf("%w with session %s: different authentication of the same packets of %s on the same interface of a destination (existing: %s, filter %s; new: %s, filter %s); "+
				"use the same value, filters that do not overlap, or an interface for each", ErrConflict, other.Session, peer.Agent, authentication(other.Authenticated), theirs, authentication(next.Authenticated), ours)
		}
	}
	return nil
}

// authentication is the setting, as decided.
func authentication(on bool) string {
	if on {
		return Authenticated
	}
	return Unauthenticated
}

type difference struct{ name, a, b string }

// ways are the settings in which the marks of one packet cannot differ.
func ways(a, b SourceTask) []difference {
	of := func(t SourceTask) *Spec {
		t.Flow = t.Fields()
		return &Spec{Encoding: t.Encoding, Marking: t.Marking}
	}
	var list []difference
	x, y := of(a), of(b)
	for _, one := range settings {
		if one.OneMark {
			list = append(list, difference{one.Name, cmp.Or(one.value(x), "none"), cmp.Or(one.value(y), "none")})
		}
	}
	return append(list, []difference{
		{"authentication", authentication(a.Authenticated), authentication(b.Authenticated)},
		{"filters", aggregated(a), aggregated(b)},
		{"waypoints", dividedBy(a, b), dividedBy(b, a)},
		{"transit", strconv.FormatBool(len(a.Transit) > 0), strconv.FormatBool(len(b.Transit) > 0)},
	}...)
}

// aggregated are the filters of a task that aggregates: all packets of an aggregate are numbered
// together.
func aggregated(t SourceTask) string {
	if t.Fields() == fivetuple.All {
		return ""
	}
	return filtersText(t.Filters)
}

// filtersText is the same for equal filters.
func filtersText(filters []fivetuple.Filter) string {
	if len(filters) == 0 {
		return "none"
	}
	var texts []string
	for _, filter := range filters {
		texts = append(texts, fmt.Sprintf("%q", filter))
	}
	return strings.Join(texts, ", ")
}

// differ reports whether tasks mark packets in different ways.
func differ(a, b SourceTask) bool {
	return !slices.Equal(a.Modules, b.Modules) || a.Family != b.Family || a.Sampling != b.Sampling ||
		slices.ContainsFunc(ways(a, b), func(f difference) bool { return f.a != f.b })
}
