package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"pillion.dev/measure"
)

// cutAfter is how long a row may wait for others to fill its batch.
const cutAfter = time.Second

// streams are the points of this host and where their samples go.
type streams struct {
	log    *slog.Logger
	points map[string]*measure.Point
	ends   []*measure.Stream
}

// openStreams gives every standard point a stream that cuts batches for the spool.
func openStreams(put func(*measure.Schema, arrow.RecordBatch) error, log *slog.Logger) (*streams, error) {
	s := &streams{log: log, points: map[string]*measure.Point{}}
	for _, schema := range measure.Standard() {
		stream, err := measure.NewStream(schema, measure.StreamOptions{Interval: cutAfter}, put)
		if err != nil {
			return nil, fmt.Errorf("open stream %q: %w", schema.Name, err)
		}
		point, err := measure.NewPoint(schema)
		if err != nil {
			return nil, fmt.Errorf("open point %q: %w", schema.Name, err)
		}
		if _, err := point.Subscribe(measure.Pipeline{}, stream.Append); err != nil {
			return nil, fmt.Errorf("open point %q: %w", schema.Name, err)
		}
		s.points[schema.Name] = point
		s.ends = append(s.ends, stream)
	}
	return s, nil
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

// flush cuts what is left.
func (s *streams) close(context.Context) error {
	var err error
	for _, stream := range s.ends {
		err = errors.Join(err, stream.Close())
	}
	return err
}
