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

// limit is one of Limits.
type limit struct {
	name string
	at   func(*Limits) *int
	// value is the default.
	value int
	// kept returns what of it is in use, and what was refused or dropped because of it; nil: it has no metrics.
	kept func(*server) (int, uint64)
}

var limits = []limit{
	{"agents", func(l *Limits) *int { return &l.Agents }, 100_000, func(s *server) (int, uint64) { return s.control.Registered() }},
	{"watched_pairs", func(l *Limits) *int { return &l.WatchedPairs }, 100_000, func(s *server) (int, uint64) { return s.web.Watched() }},
	{"loss_pairs", func(l *Limits) *int { return &l.LossPairs }, 65_536, func(s *server) (int, uint64) { return s.alarms.Kept() }},
	{"alarms", func(l *Limits) *int { return &l.Alarms }, 5000, func(s *server) (int, uint64) { return s.alarms.Active() }},
	{"clock_pairs", func(l *Limits) *int { return &l.ClockPairs }, 10_000, func(s *server) (int, uint64) { return s.clocks.Kept() }},
	{"paths", func(l *Limits) *int { return &l.Paths }, 50_000, func(s *server) (int, uint64) { return s.topology.Kept() }},
	{"metrics_pairs", func(l *Limits) *int { return &l.MetricsPairs }, 1000, nil},
}

// spareConnections are those that the embedded bus accepts beyond the registered agents: of hosts that
// connect before they are known, and of agents whose previous connection has not timed out.
const spareConnections = 4096

// complete fills in the defaults.
func (l Limits) complete() (Limits, error) {
	for _, one := range limits {
		if *one.at(&l) < 0 {
			return l, fmt.Errorf("%w: limits.%s is negative", ErrConfig, one.name)
		}
		*one.at(&l) = cmp.Or(*one.at(&l), one.value)
	}
	return l, nil
}

// limitFigures are the metrics of Limits: what is kept, what is the limit, and what was refused or dropped.
func (s *server) limitFigures() (figures []web.Figure) {
	for _, one := range limits {
		if one.kept == nil {
			continue
		}
		kept, refused := one.kept(s)
		for _, figure := range []web.Figure{
			{Name: "pillion_limit", Help: "Limits of what the server keeps in memory (limits in its configuration).", Value: float64(*one.at(&s.config.Limits))},
			{Name: "pillion_limit_used", Help: "What of each limit is in use.", Value: float64(kept)},
			{Name: "pillion_limit_refused_total", Help: "Enrolments refused, rows not watched and paths dropped because a limit was reached.", Value: float64(refused)},
		} {
			figure.Labels = map[string]string{"limit": one.name}
			figures = append(figures, figure)
		}
	}
	return figures
}
