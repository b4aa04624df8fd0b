package service

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"pillion.dev/measure"
)

// cutAfter is how long a row may wait for others to fill its batch. Rows of one
// interval come together; a second would race with the next interval.
const cutAfter = 250 * time.Millisecond

// streams are the points of this host and where their samples go.
type streams struct {
	log    *slog.Logger
	points map[string]*measure.Point
	ends   []*measure.Subscription
}

// openStreams gives every standard point, and those that are wanted beside them, a
// stream that cuts batches for the spool, and more that are made of them.
func openStreams(put measure.BatchSink, wanted []*measure.Schema, more []Stream, log *slog.Logger) (*streams, error) {
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
	for _, stream := range more {
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
		return fmt.Errorf("%w: stream %q of point %q: there is no such point, or the name is a point's", ErrConfig, stream.Name, stream.Point)
	}
	end, err := point.SubscribeStream(pipeline, measure.StreamOptions{Interval: cutAfter}, put)
	if err != nil {
		return fmt.Errorf("%w: stream %q: %w", ErrConfig, stream.Name, err)
	}
	s.ends = append(s.ends, end)
	return nil
}

// inject puts a sample in at the point of its schema.
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

// close cuts what is left.
func (s *streams) close() error {
	var err error
	for _, end := range s.ends {
		err = errors.Join(err, end.Cancel())
	}
	return err
}
