// Package otlp exports the server's metrics to a collector by the OpenTelemetry protocol (OTLP) in protobuf over
// HTTP: what /metrics exposes, under names of OpenTelemetry, with delay as exponential histograms.
//
// It computes no figure of its own but those about the export, keeps none, and reads no rows. Values are
// cumulative: an export that fails is superseded by the next one, so nothing is queued.
package otlp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	dto "github.com/prometheus/client_model/go"
	service "go.opentelemetry.io/proto/slim/otlp/collector/metrics/v1"
	common "go.opentelemetry.io/proto/slim/otlp/common/v1"

	"pillion.dev/internal/every"
	"pillion.dev/server/outbound"
)

// Options of an Exporter.
type Options struct {
	// Config is complete.
	Config Config
	// Addresses restrict where the collector may be.
	Addresses outbound.Addresses
	// Gather returns the metrics; those beside an error are exported.
	Gather func() ([]*dto.MetricFamily, error)
	// Resource are the default attributes.
	Resource map[string]string
	// Scope and Version name the program that made the metrics.
	Scope, Version string
	Log            *slog.Logger
	// Now is the clock; default time.Now.
	Now func() time.Time
}

// Stats of an Exporter since it started.
type Stats struct {
	// Points are the data points that the collector accepted, Rejected those that it rejected, and Dropped those
	// that were not delivered before the next export was due.
	Points, Rejected, Dropped uint64
	// Failed are requests that failed, including those that were repeated.
	Failed uint64
}

// Exporter exports metrics at an interval.
type Exporter struct {
	config   Config
	gather   func() ([]*dto.MetricFamily, error)
	resource []*common.KeyValue
	scope    *common.InstrumentationScope
	log      *slog.Logger
	now      func() time.Time
	started  time.Time
	link     *link
	// failing is set from a failed export to one that succeeds, so that each is logged once.
	failing bool
	// notBefore is the earliest time at which the collector accepts the next request.
	notBefore time.Time

	points, rejected, dropped, failed atomic.Uint64
}

// New returns an Exporter that does not export yet.
func New(o Options) *Exporter {
	if o.Now == nil {
		o.Now = time.Now
	}
	e := &Exporter{
		config: o.Config, gather: o.Gather, log: o.Log, now: o.Now, started: o.Now(), link: &link{config: o.Config, addresses: o.Addresses},
		scope: &common.InstrumentationScope{Name: o.Scope, Version: o.Version},
	}
	all := maps.Clone(o.Resource)
	maps.Copy(all, o.Config.Resource)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if all[name] != "" {
			e.resource = append(e.resource, attribute(name, all[name]))
		}
	}
	return e
}

// Stats returns the counts until now.
func (e *Exporter) Stats() Stats {
	return Stats{Points: e.points.Load(), Rejected: e.rejected.Load(), Dropped: e.dropped.Load(), Failed: e.failed.Load()}
}

// lastTime bounds the export at the end.
const lastTime = time.Second

// Run exports at the interval, and for a last time when the context ends.
func (e *Exporter) Run(ctx context.Context) {
	defer e.link.close()
	every.Do(ctx, e.config.Interval, func() { e.within(ctx, e.config.Interval) })
	e.within(context.WithoutCancel(ctx), lastTime)
}

// within exports once in this time.
func (e *Exporter) within(ctx context.Context, limit time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	e.Export(ctx)
}

// Export gathers the metrics once and sends them, again if need be until the context ends; what is not delivered
// then is dropped and counted.
func (e *Exporter) Export(ctx context.Context) {
	families, err := e.gather()
	if err != nil {
		e.log.Debug("gather metrics for OTLP", "error", err)
	}
	c := &converter{resource: e.resource, scope: e.scope, at: nanoseconds(e.now()), started: nanoseconds(e.started)}
	var failed error
	if wait := time.Until(e.notBefore); wait > 0 {
		failed = fmt.Errorf("export metrics: the collector asked to wait for another %v", wait.Round(time.Second))
	}
	for message, points := range c.requests(families) {
		if failed == nil {
			failed = e.deliver(ctx, message, points)
		}
		if failed != nil {
			e.dropped.Add(uint64(points))
		}
	}
	e.dropped.Add(uint64(c.unfit))
	switch {
	case failed != nil && !e.failing:
		e.log.Warn("metrics are not exported", "collector", e.config.to.Host, "error", failed)
	case failed == nil && e.failing:
		e.log.Info("metrics are exported again", "collector", e.config.to.Host)
	}
	e.failing = failed != nil
}

// The waits between attempts: doubled from the first on, each of a random length around that; and the longest one
// that a collector may ask for.
const (
	firstWait = time.Second
	mostWait  = time.Minute
	waitMost  = time.Hour
)

// deliver sends a message until the collector has answered or the context ends.
func (e *Exporter) deliver(ctx context.Context, message *service.ExportMetricsServiceRequest, points int) error {
	for wait := firstWait; ; wait = min(2*wait, mostWait) {
		rejected, err := e.link.send(ctx, message)
		if err == nil {
			rejected = min(max(rejected, 0), int64(points))
			e.rejected.Add(uint64(rejected))
			e.points.Add(uint64(int64(points) - rejected))
			return nil
		}
		e.failed.Add(1)
		var temporary *temporaryError
		if !errors.As(err, &temporary) {
			return err
		}
		pause := temporary.after
		if pause == 0 {
			pause = wait/2 + rand.N(wait)
		}
		if until, bounded := ctx.Deadline(); bounded && time.Until(until) < pause {
			if temporary.after > 0 {
				e.notBefore = time.Now().Add(min(pause, waitMost))
			}
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause):
		}
	}
}
