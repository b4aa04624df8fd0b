package main

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"pillion.dev/measure"
)

// columns are the columns of the comparison with other programs, and the time.
var columns = &measure.Schema{Name: "ingest", Doc: "rows of the benchmark", Fields: []measure.Field{
	measure.TimeField,
	{Name: "number", Type: measure.Int64}, {Name: "value", Type: measure.Float64}, {Name: "total", Type: measure.Uint64},
	{Name: "label", Type: measure.String}, {Name: "small", Type: measure.Uint32},
}}

// batch is a payload of that many rows, the last of them at the given time and all of them within the second before.
func batch(rows int, last time.Time) ([]byte, error) {
	var payload []byte
	stream, err := measure.NewStream(columns, measure.StreamOptions{Rows: rows, Bytes: measure.BatchBytesMax},
		func(_ *measure.Schema, record arrow.RecordBatch) error {
			if payload != nil {
				return fmt.Errorf("encode a batch of %d rows: it is larger than %d bytes", rows, measure.BatchBytesMax)
			}
			e, err := measure.Encode(measure.Key{Stream: columns.Name}, record)
			payload = e.Payload
			return err
		})
	if err != nil {
		return nil, err
	}
	sample := make(measure.Sample, len(columns.Fields))
	step := time.Second / time.Duration(rows)
	for n := range rows {
		sample[0] = measure.TimeValue(last.Add(-time.Duration(rows-1-n) * step))
		sample[1] = measure.Int64Value(rand.Int64N(1 << 40))
		sample[2] = measure.Float64Value(rand.NormFloat64())
		sample[3] = measure.Uint64Value(uint64(n))
		sample[4] = measure.StringValue(fmt.Sprintf("label-%06d", rand.IntN(1_000_000)))
		sample[5] = measure.Uint32Value(rand.Uint32N(1000))
		if err := stream.Append(sample); err != nil {
			return nil, err
		}
	}
	return payload, stream.Close()
}

// prepare encodes different payloads in advance: the agents' work is not measured.
func prepare(rows int) ([][]byte, error) {
	var payloads [][]byte
	for n := range 8 {
		payload, err := batch(rows, time.Now().Add(time.Duration(n)*time.Second))
		if err != nil {
			return nil, err
		}
		payloads = append(payloads, payload)
	}
	return payloads, nil
}
