package server

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"pillion.dev/archive"
	"pillion.dev/measure"
	"pillion.dev/server/aggregate"
	"pillion.dev/server/web"
)

// Aggregate is how this server, of a site, sends merged flows to the server of a fleet.
type Aggregate struct {
	// Server is the host of the fleet's server, with a port unless that is 8470; several are
	// separated by commas. Empty: nothing is sent.
	Server string `yaml:"server"`
	// TokenFile has the join token, whose site the agents of this server get before their names.
	// It is needed once.
	TokenFile string `yaml:"token_file"`
	// Name of this server as an agent of the fleet; default the host name.
	Name string `yaml:"name"`
	// Granularity is pair, of agents, or prefix, of source and destination; default pair.
	Granularity string `yaml:"granularity"`
	// PrefixIPv4 and PrefixIPv6 are the lengths of prefixes; default 24 and 64.
	PrefixIPv4 int `yaml:"prefix_ipv4"`
	PrefixIPv6 int `yaml:"prefix_ipv6"`
	// Window is the length of the windows over which rows are merged; default 10 s.
	Window time.Duration `yaml:"window"`
	// Lateness is how long after its end a window waits for rows; default 5 s.
	Lateness time.Duration `yaml:"lateness"`
}

// Choices of Aggregate.Granularity.
const (
	mergePairs    = "pair"
	mergePrefixes = "prefix"
)

func (a Aggregate) complete() (Aggregate, error) {
	a.Granularity = cmp.Or(a.Granularity, mergePairs)
	a.PrefixIPv4, a.PrefixIPv6 = cmp.Or(a.PrefixIPv4, 24), cmp.Or(a.PrefixIPv6, 64)
	a.Window, a.Lateness = cmp.Or(a.Window, 10*time.Second), cmp.Or(a.Lateness, 5*time.Second)
	switch {
	case a.Granularity != mergePairs && a.Granularity != mergePrefixes:
		return a, fmt.Errorf("%w: aggregate_to: granularity %q is neither pair nor prefix", ErrConfig, a.Granularity)
	case a.PrefixIPv4 < 0 || a.PrefixIPv4 > 32 || a.PrefixIPv6 < 0 || a.PrefixIPv6 > 128:
		return a, fmt.Errorf("%w: aggregate_to: prefix lengths %d and %d, want 1 to 32 and 1 to 128", ErrConfig, a.PrefixIPv4, a.PrefixIPv6)
	case a.Window < time.Second || a.Window > time.Hour:
		return a, fmt.Errorf("%w: aggregate_to: window %v, want 1s to 1h", ErrConfig, a.Window)
	case a.Lateness < 0 || a.Lateness > 24*time.Hour:
		return a, fmt.Errorf("%w: aggregate_to: lateness %v, want 0 to 24h", ErrConfig, a.Lateness)
	}
	return a, nil
}

// Joining opens the identity of this server as an agent of the fleet, or enrols it; folder has it.
type Joining func(ctx context.Context, to Aggregate, folder string) (aggregate.Identity, error)

// aggregation is nil unless this server aggregates.
type aggregation struct {
	*aggregate.Aggregator
	link aggregate.Link
}

// followed are the streams whose arrivals the archive has to pass on.
func (c Config) followed() []string {
	if c.AggregateTo.Server == "" {
		return nil
	}
	return []string{measure.Flows.Name}
}

// openAggregation reads where aggregation is, before the first batch is stored.
func (s *server) openAggregation(ctx context.Context) (err error) {
	to := s.config.AggregateTo
	if to.Server == "" {
		return nil
	}
	rows, ok := s.archive.(archive.Arrivals)
	if !ok {
		return fmt.Errorf("%w: aggregate_to: the archive %s cannot pass on rows as they arrive; only duckdb: does so", ErrConfig, s.config.Archive)
	}
	if s.config.Join == nil {
		return fmt.Errorf("%w: aggregate_to: this program cannot join a fleet", ErrConfig)
	}
	a := &aggregation{link: aggregate.Link{Log: s.log, Join: func(ctx context.Context) (aggregate.Identity, error) {
		return s.config.Join(ctx, to, s.config.Folder)
	}}}
	a.Aggregator, err = aggregate.Open(ctx, aggregate.Options{
		Archive: rows, Folder: s.config.Folder, Send: a.link.Send, Log: s.log,
		Merging: aggregate.Merging{
			Window: to.Window, Lateness: to.Lateness, Prefixes: to.Granularity == mergePrefixes, IPv4: to.PrefixIPv4, IPv6: to.PrefixIPv6,
		},
	})
	s.aggregation = a
	return err
}

// run aggregates until the context ends.
func (a *aggregation) run(ctx context.Context) {
	var parts sync.WaitGroup
	parts.Go(func() { a.link.Run(ctx) })
	parts.Go(func() { a.Run(ctx) })
	parts.Wait()
}

// figures are the metrics of aggregation.
func (a *aggregation) figures() []web.Figure {
	if a == nil {
		return nil
	}
	s, connected := a.Stats(), 0.0
	if a.link.Connected() {
		connected = 1
	}
	return []web.Figure{
		{Name: "pillion_aggregate_connected", Help: "1: this server is connected to the server of the fleet to which it sends merged flows.", Value: connected},
		{Name: "pillion_aggregate_rows_total", Help: "Rows of flows that were merged.", Value: float64(s.Taken)},
		{Name: "pillion_aggregate_sent_rows_total", Help: "Merged rows that the server of the fleet has stored.", Value: float64(s.Sent)},
		{Name: "pillion_aggregate_removed_rows_total", Help: "Rows of flows that retention removed before they were merged.", Value: float64(s.Removed)},
		{Name: "pillion_aggregate_foreign_rows_total", Help: "Rows of flows of other sites, which are not sent.", Value: float64(s.Foreign)},
		{Name: "pillion_aggregate_rejected_rows_total", Help: "Merged rows that the server of the fleet rejected permanently.", Value: float64(s.Rejected)},
		{Name: "pillion_aggregate_open_windows", Help: "Windows of pairs that wait for further rows.", Value: float64(s.Open)},
	}
}
