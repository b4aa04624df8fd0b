package session

import (
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

// Conflict returns an error if a session cannot run alongside the running ones. An
// interface has one marking program, so sessions that share it must agree on how to mark.
// Their peers and filters are merged; so are those of destinations, as far as they fit.
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
	if more := len(faults) - 1; more > 0 {
		return fmt.Errorf("%w; likewise on %d more agents", faults[0], more)
	}
	return errors.Join(faults...)
}

// Fits returns an error if an agent cannot mark for one more session. A task without a
// device may use any.
func Fits(others []SourceTask, next SourceTask) error {
	set := map[rule]bool{}
	addRules(set, next)
	same := true // equal filters: the addresses are in a table without that limit
	var met []string
	for _, other := range others {
		if !mayShare(other.Device, next.Device) {
			continue
		}
		if field, theirs, ours := differ(other, next); field != "" {
			return fmt.Errorf("%w with session %s: different %s on the same interface (existing: %s; new: %s); "+
				"use the same value, or set an interface for each", ErrConflict, other.Session, field, theirs, ours)
		}
		addRules(set, other)
		same = same && slices.Equal(other.Filters, next.Filters)
		met = append(met, other.Session)
	}
	if same || len(set) <= RulesMax {
		return nil
	}
	return fmt.Errorf("%w with session %s: their filters differ and, combined with the destination addresses, need %d rules; "+
		"a source supports %d unless all filters are equal", ErrConflict, strings.Join(met, " and "), len(set), RulesMax)
}

// mayShare reports whether two tasks may be on the same interface: one without a device may
// use any.
func mayShare(device, other string) bool { return device == other || device == "" || other == "" }

// fitsReading returns an error if an agent cannot tell which marks to read for one more session.
func fitsReading(others []DestinationTask, next DestinationTask) error {
	filters := map[fivetuple.Filter]bool{}
	var met []string
	for _, task := range append(slices.Clone(others), next) {
		if !mayShare(task.Device, next.Device) {
			continue
		}
		for _, filter := range task.Filters {
			filters[filter] = true
		}
		if task.Session != next.Session && len(task.Filters) > 0 {
			met = append(met, task.Session)
		}
	}
	if len(filters) <= RulesMax || len(next.Filters) == 0 {
		return nil
	}
	return fmt.Errorf("%w with session %s: they have %d different filters; a destination supports %d", ErrConflict,
		strings.Join(met, " and "), len(filters), RulesMax)
}

func differ(a, b SourceTask) (field, theirs, ours string) {
	for _, f := range []struct{ name, a, b string }{
		{"modules", strings.Join(a.Modules, ","), strings.Join(b.Modules, ",")},
		{"encoding", a.Encoding, b.Encoding},
		{"stamp_every", fmt.Sprint(a.StampEvery), fmt.Sprint(b.StampEvery)},
		{"sparse_marks", strconv.FormatBool(a.SparseMarks), strconv.FormatBool(b.SparseMarks)},
		{"authentication", strconv.FormatBool(a.Authenticated), strconv.FormatBool(b.Authenticated)},
		{"family", a.Family, b.Family},
	} {
		if f.a != f.b {
			return f.name, f.a, f.b
		}
	}
	if a.Sampling != b.Sampling {
		return "sampling", a.Sampling.String(), b.Sampling.String()
	}
	return "", "", ""
}
