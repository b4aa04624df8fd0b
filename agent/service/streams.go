package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"pillion.dev/measure"
)

// cutAfter is the maximum time that a batch collects rows. Rows of one interval arrive together; a
// second would race with the next interval.
const cutAfter = 250 * time.Millisecond

// streams are the points of this host with their streams.
type streams struct {
	log    *slog.Logger
	points map[string]*measure.Point
	ends   []*measure.Subscription
	// derived are the derived streams, with what reportLosses logged last.
	derived []derivedStream
}

type derivedStream struct {
	name   string
	end    *measure.Subscription
	logged measure.SubscriptionCounts
}

// openStreams opens all standard points and the wanted ones, each with a stream that cuts
// batches for the spool, and the derived streams.
func openStreams(put measure.BatchSink, wanted []*measure.Schema, derived []Stream, log *slog.Logger) (*streams, error) {
	s := &streams{log: log, points: map[string]*measure.Point{}}
	for _, schema := range append(measure.Standard(), wanted...) {
		if s.points[schema.Name] != nil {
			continue
		}
		point, err := measure.NewPoint(schema)
		if err != nil {
			return nil, fmt.Errorf("open point %q: %w", schema.Name, err)
		}
		end, err := point.SubscribeStream(measure.Pipeline{}, measure.StreamOptions{Interval: cutAfter}, put)
		if err != nil {
			return nil, fmt.Errorf("open stream %q: %w", schema.Name, err)
		}
		s.points[schema.Name] = point
		s.ends = append(s.ends, end)
	}
	for _, stream := range derived {
		if err := s.add(stream, put); err != nil {
			return nil, errors.Join(err, s.close())
		}
	}
	return s, nil
}

func (s *streams) add(stream Stream, put measure.BatchSink) error {
	pipeline, err := stream.pipeline()
	if err != nil {
		return err
	}
	point := s.points[stream.Point]
	if point == nil || s.points[stream.Name] != nil {
		return fmt.Errorf("%w: stream %q of point %q: unknown point, or a stream named like a point", ErrConfig, stream.Name, stream.Point)
	}
	end, err := point.SubscribeStream(pipeline, measure.StreamOptions{Interval: cutAfter}, put)
	if err != nil {
		return fmt.Errorf("%w: stream %q: %w", ErrConfig, stream.Name, err)
	}
	s.ends = append(s.ends, end)
	s.derived = append(s.derived, derivedStream{name: stream.Name, end: end})
	return nil
}

// lossEvery is the time between two reports of losses.
const lossEvery = time.Minute

// run reports losses until the context ends.
func (s *streams) run(ctx context.Context) {
	ticks := time.NewTicker(lossEvery)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
			s.reportLosses()
		}
	}
}

// reportLosses logs what the filters of derived streams dropped or changed since the last
// report.
func (s *streams) reportLosses() {
	for i := range s.derived {
		d := &s.derived[i]
		now, before := d.end.Counts(), d.logged
		d.logged = now
		overflowed, late, saturated := now.Overflowed-before.Overflowed, now.Late-before.Late, now.Saturated-before.Saturated
		if overflowed+late+saturated > 0 {
			s.log.Warn("derived stream is incomplete", "stream", d.name,
				"samples_dropped", overflowed, "samples_late", late, "values_saturated", saturated)
		}
	}
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
	s.reportLosses()
	return err
}
