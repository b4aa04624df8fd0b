package session

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// ErrConflict marks sessions that cannot run at the same time.
var ErrConflict = errors.New("conflict")

// Conflict returns an error if a session cannot run alongside the running ones. Only
// sources can conflict: an interface has one marking program, so sessions that share
// it must agree on how to mark. Their peers and filters are merged; those of
// destinations always are.
func Conflict(running []Plan, next Plan) error {
	var faults []error
	for _, agent := range slices.Sorted(maps.Keys(next.Assignments)) {
		var others []SourceTask
		for _, plan := range running {
			if plan.Session != next.Session {
				others = append(others, plan.Assignments[agent].Sources...)
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
		if other.Device != next.Device && other.Device != "" && next.Device != "" {
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
