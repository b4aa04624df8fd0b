package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"pillion.dev/agent/host"
	"pillion.dev/agent/loader"
	"pillion.dev/internal/every"
	"pillion.dev/measure"
)

// cutAfter is the maximum time that a batch collects rows. Rows of one interval arrive together; a
// second would race with the next interval.
const cutAfter = 250 * time.Millisecond

// streams are the points of this host with their streams.
type streams struct {
	log    *slog.Logger
	tree   tree
	points map[string]*measure.Point
	ends   []*measure.Subscription
	// derived are the derived streams of the host's own points.
	derived branch
	// reported are the streams that applications report.
	reported *reported
}

// openStreams opens all standard points and the wanted ones, each with a stream that cuts
// batches for the spool, and the derived streams. Applications' batches go to another one.
func openStreams(put, applications measure.BatchSink, wanted []*measure.Schema, derived []Stream, log *slog.Logger) (*streams, error) {
	s := &streams{log: log, tree: derived, points: map[string]*measure.Point{}}
	if err := s.tree.check(append(measure.Standard(), wanted...)); err != nil {
		return nil, err
	}
	s.reported = newReported(s.tree, applications, log)
	for _, schema := range append(measure.Standard(), wanted...) {
		if s.points[schema.Name] != nil {
			continue
		}
		point, err := measure.NewPoint(schema)
		if err != nil {
			return nil, fmt.Errorf("open point %q: %w", schema.Name, err)
		}
		s.points[schema.Name] = point
		children := s.tree.of(schema.Name)
		if !replaced(children) {
			end, err := point.SubscribeStream(measure.Pipeline{}, measure.StreamOptions{Interval: cutAfter}, put)
			if err != nil {
				return nil, fmt.Errorf("open stream %q: %w", schema.Name, err)
			}
			s.ends = append(s.ends, end)
		}
		if err := s.derived.grow(s.tree, children, point, nil, put); err != nil {
			return nil, errors.Join(err, s.close())
		}
	}
	return s, nil
}

// tree is all derived streams: each is computed from a point, from what applications
// report, or from another one.
type tree []Stream

// of are the streams of a point or derived stream.
func (t tree) of(point string) (children []Stream) {
	for _, stream := range t {
		if stream.Domain == "" && stream.Point == point {
			children = append(children, stream)
		}
	}
	return children
}

// replaced reports whether one of the streams replaces what it is computed from.
func replaced(children []Stream) bool {
	return slices.ContainsFunc(children, func(s Stream) bool { return s.Replace })
}

// sampled are the points whose own rows nobody but the user of this configuration asked
// for: the others are results of sessions, or the server needs them.
func sampled() []string {
	names := []string{measure.Host.Name, measure.Interfaces.Name}
	for _, schema := range append(host.Nmetrics(), loader.CapturePoints([]loader.Capture{{}})...) {
		names = append(names, schema.Name)
	}
	return names
}

// check finds streams that cannot be computed: of unknown points, of themselves, or named
// like another one.
func (t tree) check(points []*measure.Schema) error {
	reached, names := map[string]bool{}, map[string]bool{}
	for _, schema := range points {
		reached[schema.Name], names[schema.Name] = true, true
	}
	for _, stream := range t {
		if names[stream.Name] {
			return fmt.Errorf("%w: stream %q: a point or another stream has the name", ErrConfig, stream.Name)
		}
		names[stream.Name] = true
		if stream.Replace && stream.Domain == "" && slices.ContainsFunc(points, func(p *measure.Schema) bool { return p.Name == stream.Point }) &&
			!slices.Contains(sampled(), stream.Point) {
			return fmt.Errorf("%w: stream %q: replace: the rows of %s cannot be replaced, because sessions and the server use them", ErrConfig, stream.Name, stream.Point)
		}
	}
	for left := slices.Clone(t); len(left) > 0; {
		before := len(left)
		left = slices.DeleteFunc(left, func(s Stream) bool {
			reachable := s.Domain != "" || reached[s.Point]
			reached[s.Name] = reached[s.Name] || reachable
			return reachable
		})
		if len(left) == before {
			return fmt.Errorf("%w: stream %q of point %q: no such point or stream, or a stream of itself; tables of applications need a domain", ErrConfig, left[0].Name, left[0].Point)
		}
	}
	return nil
}

// branch are derived streams with a common origin, parents before their children.
type branch struct {
	ends    []*measure.Subscription
	derived []derivedStream
}

type derivedStream struct {
	name   string
	end    *measure.Subscription
	logged measure.SubscriptionCounts
}

// grow adds streams of a point, and those that are computed from them. All have the given
// columns as keys.
func (b *branch) grow(t tree, children []Stream, point *measure.Point, keys []string, put measure.BatchSink) error {
	for _, stream := range children {
		pipeline, err := stream.pipeline()
		if err != nil {
			return err
		}
		pipeline.Keys = append(slices.Clone(keys), slices.DeleteFunc(slices.Clone(pipeline.Keys), func(key string) bool { return slices.Contains(keys, key) })...)
		derived, end, err := point.Derive(pipeline)
		if err != nil {
			return fmt.Errorf("%w: stream %q: %w", ErrConfig, stream.Name, err)
		}
		b.ends = append(b.ends, end)
		b.derived = append(b.derived, derivedStream{name: stream.Name, end: end})
		grandchildren := t.of(stream.Name)
		if !replaced(grandchildren) {
			end, err := derived.SubscribeStream(measure.Pipeline{}, measure.StreamOptions{Interval: cutAfter}, put)
			if err != nil {
				return fmt.Errorf("%w: stream %q: %w", ErrConfig, stream.Name, err)
			}
			b.ends = append(b.ends, end)
		}
		if err := b.grow(t, grandchildren, derived, keys, put); err != nil {
			return err
		}
	}
	return nil
}

// reportLosses logs what the filters dropped or changed since the last report.
func (b *branch) reportLosses(log *slog.Logger) {
	for i := range b.derived {
		d := &b.derived[i]
		now, before := d.end.Counts(), d.logged
		d.logged = now
		overflowed, late, saturated := now.Overflowed-before.Overflowed, now.Late-before.Late, now.Saturated-before.Saturated
		if overflowed+late+saturated > 0 {
			log.Warn("derived stream is incomplete", "stream", d.name,
				"samples_dropped", overflowed, "samples_late", late, "values_saturated", saturated)
		}
	}
}

// close flushes in the order in which rows flow.
func (b *branch) close(log *slog.Logger) (err error) {
	for _, end := range b.ends {
		err = errors.Join(err, end.Cancel())
	}
	b.reportLosses(log)
	return err
}

// lossEvery is the time between two reports of losses.
const lossEvery = time.Minute

// run reports losses until the context ends.
func (s *streams) run(ctx context.Context) {
	every.Do(ctx, lossEvery, func() {
		s.derived.reportLosses(s.log)
		s.reported.reportLosses()
	})
}

// inject injects a sample at the point of its schema.
func (s *streams) inject(schema *measure.Schema, sample measure.Sample) {
	if err := s.points[schema.Name].Inject(sample); err != nil {
		s.log.Warn("inject sample", "point", schema.Name, "error", err)
	}
}

func (s *streams) injectAll(schema *measure.Schema, samples []measure.Sample) error {
	for _, sample := range samples {
		s.inject(schema, sample)
	}
	return nil
}

// close flushes the last batches.
func (s *streams) close() error {
	var err error
	for _, end := range s.ends {
		err = errors.Join(err, end.Cancel())
	}
	return errors.Join(err, s.derived.close(s.log), s.reported.close())
}
