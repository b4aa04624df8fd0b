package experiment

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"pillion.dev/session"
)

// checkCells resolves every cell: its base, its targets and its commands.
func (c *checker) checkCells() {
	s := c.spec
	cells := s.Cells()
	if len(cells) == 0 {
		c.report("exclude", "no cell is left")
		return
	}
	if s.Response != nil {
		if _, err := s.bases(cells); err != nil {
			c.report("response.to", "%w", err)
		}
	}
	for i, t := range s.Targets {
		field := fmt.Sprintf("targets[%d].where", i)
		switch {
		case !slices.ContainsFunc(cells, func(cell Cell) bool { return t.Where.fits(cell.Levels) }):
			c.report(field, "no cell is selected by %q", t.Where)
		case len(s.judged(t)) == 0:
			c.report(field, "%q selects only %s, which ratios are relative to: their ratio is 1", t.Where, s.Response.base())
		}
	}
	c.checkConditions()
	if need, budget := s.expectedBlockTime(), time.Duration(s.Stop.Budget); budget > 0 && need > budget {
		c.report("stop.budget", "%s does not suffice for a block, which takes %s, from run.duration", s.Stop.Budget, round(need))
	}
	for _, cell := range cells {
		v := s.Values(cell, Turn{})
		if _, err := v.Replace(s.Run.Command); err != nil {
			c.report("run.command", "%w", err)
			return
		}
		for _, a := range s.TreatmentsOf(cell) {
			field := "treatments." + a.Factor + "." + a.Level
			for name, text := range map[string]string{"start": a.Start, "stop": a.Stop, "command": a.Command} {
				if _, err := v.Replace(text); err != nil {
					c.report(field+"."+name, "%w", err)
					return
				}
			}
			session, err := a.sessionSpec(v)
			if err != nil {
				c.report(field+".session", "%w", err)
				return
			}
			if session != nil && c.checkSession(field+".session", *session) {
				return
			}
		}
	}
}

// checkSession reports whether it found mistakes. What the runner gives a session need not be
// there.
func (c *checker) checkSession(field string, s session.Spec) bool {
	s.Name = "run"
	if len(s.Sources) == 0 {
		s.Sources = []string{RoleSource}
	}
	if len(s.Destinations) == 0 {
		s.Destinations = []string{RoleDestination}
	}
	found := s.Validate()
	for _, problem := range found {
		c.report(field+"."+problem.Field, "%s", problem.Message)
	}
	return len(found) > 0
}

// sessionNames are those that a session gives a value.
var sessionNames = []string{"marked", "accepted", "source", "destination", "session"}

// checkConditions checks conditions against what is known of their names before a run.
func (c *checker) checkConditions() {
	s := c.spec
	numbers := func(name string) kind {
		if _, ok := s.Measures.find(name); ok {
			return numberKind
		}
		return anyKind
	}
	if s.Invalid != nil {
		if err := s.Invalid.checkNames(numbers); err != nil {
			c.report("invalid", "%w", err)
		}
	}
	for _, factor := range slices.Sorted(maps.Keys(s.Treatments)) {
		for _, level := range slices.Sorted(maps.Keys(s.Treatments[factor])) {
			expect := s.Treatments[factor][level].Expect
			if expect == nil || expect.Bare {
				continue
			}
			field := "treatments." + factor + "." + level + ".expect"
			if err := expect.Condition.checkNames(numbers); err != nil {
				c.report(field, "%w", err)
			}
			for _, name := range expect.Condition.names {
				first, _, _ := strings.Cut(name, ".")
				if _, measured := s.Measures.find(name); slices.Contains(sessionNames, first) && !measured && !s.accompanied(factor, level) {
					c.report(field, "%s: no treatment of these cells has a session or a command that could count it", name)
				}
			}
		}
	}
}

// accompanied reports whether a cell with a level has a session or a command beside the load.
func (s *Spec) accompanied(factor, level string) bool {
	for _, c := range s.Cells() {
		if c.Levels[factor] == level && slices.ContainsFunc(s.TreatmentsOf(c), func(a Applied) bool { return a.Session != nil || a.Command != "" }) {
			return true
		}
	}
	return false
}
