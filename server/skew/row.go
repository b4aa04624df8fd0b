package skew

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"pillion.dev/archive"
	"pillion.dev/measure"
	"pillion.dev/measure/skew"
)

// sampleOf returns an estimate as a row of measure.ClockPairs.
func sampleOf(source, destination string, e skew.Estimate) measure.Sample {
	bound, directions := measure.Value{}, uint32(1)
	if e.Both {
		bound, directions = measure.Float64Value(e.OffsetBoundNs), 2
	}
	return measure.Sample{
		measure.TimeValue(e.Until), measure.StringValue(source), measure.StringValue(destination),
		measure.TimeValue(e.Segment), measure.TimeValue(e.Since),
		measure.Float64Value(e.OffsetNs), bound, measure.Float64Value(e.SkewPPB), measure.Float64Value(e.SkewBoundPPB),
		measure.Float64Value(e.DriftNs), measure.Uint32Value(uint32(e.Points)), measure.Uint32Value(directions),
	}
}

// estimateOf returns the estimate in a row with the columns of measure.ClockPairs, in their order.
func estimateOf(row []measure.Value) skew.Estimate {
	e := skew.Estimate{
		Until: row[0].Time(), Segment: row[3].Time(), Since: row[4].Time(),
		OffsetNs: row[5].Float64(), OffsetBoundNs: unknownIfNull(row[6]), SkewPPB: row[7].Float64(), SkewBoundPPB: row[8].Float64(),
		DriftNs: row[9].Float64(), Points: int(row[10].Uint64()), Both: row[11].Uint64() == 2,
	}
	return e
}

// Exporter is the part of archive.Archive that Stored uses.
type Exporter interface {
	Export(ctx context.Context, question archive.Export, rows func(arrow.RecordBatch) error) error
}

const (
	// storedMost bounds the estimates that are read: one week with an estimate every 30 s.
	storedMost = 20_160
	// An estimate can apply to a time range if it is at most earlier older than its start and at most
	// laterBy newer than its end.
	earlier = 2 * time.Minute
	laterBy = 11 * time.Minute
)

// Stored reads the stored estimates that can apply to a time range, the newest ones if there are too many.
func Stored(ctx context.Context, from Exporter, source, destination string, start, end time.Time) (list []skew.Estimate, err error) {
	var columns []string
	for _, field := range measure.ClockPairs.Fields {
		columns = append(columns, field.Name)
	}
	question := archive.Export{
		Stream: measure.ClockPairs.Name, Columns: columns, Where: map[string]string{"source": source, "destination": destination},
		From: start.Add(-earlier), To: end.Add(laterBy), Limit: storedMost, Newest: true,
	}
	err = from.Export(ctx, question, func(record arrow.RecordBatch) error {
		index := make([]int, len(columns))
		for i, name := range columns {
			found := record.Schema().FieldIndices(name)
			if len(found) == 0 {
				return fmt.Errorf("column %s is missing", name)
			}
			index[i] = found[0]
		}
		row := make([]measure.Value, len(columns))
		for i := range int(record.NumRows()) {
			for j, column := range index {
				row[j], _ = measure.ValueAt(record.Column(column), i)
			}
			list = append(list, estimateOf(row))
		}
		return nil
	})
	if err != nil && !errors.Is(err, archive.ErrUnknown) {
		return nil, fmt.Errorf("read clock offsets of %s > %s: %w", source, destination, err)
	}
	return list, nil
}

func unknownIfNull(v measure.Value) float64 {
	if v.IsNull() {
		return math.NaN()
	}
	return v.Float64()
}
