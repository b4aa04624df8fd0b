package web

import (
	"maps"
	"math"
	"testing"

	"pillion.dev/server/control"
	"pillion.dev/session"
)

func TestClockFigures(t *testing.T) {
	agent := func(name, state string, clock session.Clock) control.Agent {
		return control.Agent{Name: name, State: state, Clock: clock}
	}
	agents := []control.Agent{
		agent("a", control.Connected, session.Clock{Synchronised: true, MaxErrorNs: 1500}),
		agent("b", control.Away, session.Clock{Synchronised: true, MaxErrorNs: 7}),
		agent("c", control.Connected, session.Clock{MaxErrorNs: 7}),
		agent("d", control.Connected, session.Clock{Synchronised: true, MaxErrorNs: 2e9}),
		agent("e", control.Connected, session.Clock{Synchronised: true, MaxErrorNs: 1e9}),
	}
	for _, test := range []struct {
		name  string
		limit int
		want  map[string]float64
	}{
		{"all", 10, map[string]float64{"a": 1.5e-6, "c": math.Inf(1), "d": 2, "e": 1}},
		{"the largest of others", 2, map[string]float64{"a": 1.5e-6, "c": math.Inf(1), "other": 2}},
		{"one unsynchronised among others", 1, map[string]float64{"a": 1.5e-6, "other": math.Inf(1)}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := map[string]float64{}
			for _, f := range clockFigures(agents, test.limit) {
				got[f.Labels["agent"]] = f.Value
			}
			if !maps.Equal(got, test.want) {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}
