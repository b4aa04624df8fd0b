package server

import (
	"cmp"
	"fmt"

	"pillion.dev/server/web"
)

// Limits bound what the server keeps in memory for the whole fleet; zero: the default.
type Limits struct {
	// Agents that may be registered. An embedded bus accepts as many connections, and spareConnections more.
	Agents int `yaml:"agents"`
	// WatchedPairs are the pairs, per session, whose live figures are kept.
	WatchedPairs int `yaml:"watched_pairs"`
	// LossPairs are the pairs, per session, for which rules of alarms are evaluated.
	LossPairs int `yaml:"loss_pairs"`
	// Alarms that may be active.
	Alarms int `yaml:"alarms"`
	// ClockPairs are the pairs whose clocks are compared.
	ClockPairs int `yaml:"clock_pairs"`
	// MetricsPairs are the pairs with metrics of their own.
	MetricsPairs int `yaml:"metrics_pairs"`
	// Paths that the topology shows; the least recently traced is dropped first.
	Paths int `yaml:"paths"`
}

// Defaults of Limits.
const (
	defaultAgents       = 100_000
	defaultWatchedPairs = 100_000
	defaultLossPairs    = 65_536
	defaultAlarms       = 5000
	defaultClockPairs   = 10_000
	defaultMetricsPairs = 1000
	defaultPaths        = 50_000
)

// spareConnections are those that the embedded bus accepts beyond the registered agents: of hosts that
// connect before they are known, and of agents whose previous connection has not timed out.
const spareConnections = 4096

// complete fills in the defaults.
func (l Limits) complete() (Limits, error) {
	if min(l.Agents, l.WatchedPairs, l.LossPairs, l.Alarms, l.ClockPairs, l.MetricsPairs, l.Paths) < 0 {
		return l, fmt.Errorf("%w: limits cannot be negative", ErrConfig)
	}
	return Limits{
		Agents: cmp.Or(l.Agents, defaultAgents), WatchedPairs: cmp.Or(l.WatchedPairs, defaultWatchedPairs),
		LossPairs: cmp.Or(l.LossPairs, defaultLossPairs), Alarms: cmp.Or(l.Alarms, defaultAlarms), ClockPairs: cmp.Or(l.ClockPairs, defaultClockPairs),
		MetricsPairs: cmp.Or(l.MetricsPairs, defaultMetricsPairs), Paths: cmp.Or(l.Paths, defaultPaths),
	}, nil
}

// limitFigures are the metrics of Limits: what is kept, what is the limit, and what was refused or dropped.
func (s *server) limitFigures() (figures []web.Figure) {
	l := s.config.Limits
	agents, agentsRefused := s.control.Registered()
	watched, watchedRefused := s.web.Watched()
	paths, pathsDropped := s.topology.Kept()
	clocks, clocksRefused := s.clocks.Kept()
	losses, lossesRefused := s.alarms.Kept()
	alarms, alarmsRefused := s.alarms.Active()
	for _, one := range []struct {
		name        string
		kept, limit int
		refused     uint64
	}{
		{"agents", agents, l.Agents, agentsRefused},
		{"watched_pairs", watched, l.WatchedPairs, watchedRefused},
		{"loss_pairs", losses, l.LossPairs, lossesRefused},
		{"alarms", alarms, l.Alarms, alarmsRefused},
		{"clock_pairs", clocks, l.ClockPairs, clocksRefused},
		{"paths", paths, l.Paths, pathsDropped},
	} {
		figures = append(figures,
			web.Figure{Name: "pillion_limit", Help: "Limits of what the server keeps in memory (limits in its configuration).",
				Labels: map[string]string{"limit": one.name}, Value: float64(one.limit)},
			web.Figure{Name: "pillion_limit_used", Help: "What of each limit is in use.",
				Labels: map[string]string{"limit": one.name}, Value: float64(one.kept)},
			web.Figure{Name: "pillion_limit_refused_total", Help: "Enrolments refused, rows not watched and paths dropped because a limit was reached.",
				Labels: map[string]string{"limit": one.name}, Value: float64(one.refused)})
	}
	return figures
}
