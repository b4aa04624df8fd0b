package session

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// ErrConflict marks sessions that cannot run at the same time.
var ErrConflict = errors.New("conflict")

// Conflict says why a session cannot run beside those that do, or nil. Sources are
// what can be in conflict: an interface has one program that marks, so sessions
// that meet there must mark alike. Their peers and filters are put together, as
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
		return fmt.Errorf("%w; and so on %d more agents", faults[0], more)
	}
	return errors.Join(faults...)
}

// Fits says why an agent cannot mark for one more session beside others, or nil.
// Where a device is not named, it may be any.
func Fits(others []SourceTask, next SourceTask) error {
	set := map[rule]bool{}
	addRules(set, next)
	same := true // filters: then the addresses go into a table without such a limit
	var met []string
	for _, other := range others {
		if other.Device != next.Device && other.Device != "" && next.Device != "" {
			continue
		}
		if field, theirs, ours := differ(other, next); field != "" {
			return fmt.Errorf("%w with session %s, which may mark on the same interface with %s %s, this one with %s; "+
				"make them equal, or name a device for each", ErrConflict, other.Session, field, theirs, ours)
		}
		addRules(set, other)
		same = same && slices.Equal(other.Filters, next.Filters)
		met = append(met, other.Session)
	}
	if same || len(set) <= RulesMax {
		return nil
	}
	return fmt.Errorf("%w with session %s: their filters differ, and together with the addresses of destinations make %d rules; "+
		"a source has at most %d unless all filters are the same", ErrConflict, strings.Join(met, " and "), len(set), RulesMax)
}

func differ(a, b SourceTask) (field, theirs, ours string) {
	for _, f := range []struct{ name, a, b string }{
		{"modules", strings.Join(a.Modules, ","), strings.Join(b.Modules, ",")},
		{"encoding", a.Encoding, b.Encoding},
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
