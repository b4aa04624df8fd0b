package web

import (
	"bytes"
	"encoding/csv"
	"math"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"pillion.dev/api/pillionv1"
	"pillion.dev/measure"
	rows "pillion.dev/measure/flows"
	_ "pillion.dev/measure/module" // streams of modules
	_ "pillion.dev/measure/point"  // streams of points
)

// unmeasured is a batch with a row of which nothing but the time was measured.
func unmeasured(schema *measure.Schema) arrow.RecordBatch {
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema.Arrow())
	defer b.Release()
	b.Field(0).(*array.TimestampBuilder).Append(arrow.Timestamp(time.Unix(1, 0).UnixNano()))
	for _, column := range b.Fields()[1:] {
		column.AppendNull()
	}
	return b.NewRecordBatch()
}

// TestNotMeasured: of each column of each stream, a value that was not measured is empty in CSV,
// and null in Arrow, Parquet and the rows of the API, also within a scope.
func TestNotMeasured(t *testing.T) {
	for _, schema := range measure.Standard() {
		t.Run(schema.Name, func(t *testing.T) {
			record := unmeasured(schema)
			defer record.Release()
			for format := range formats {
				var out bytes.Buffer
				file := &rowFile{format: format, chunks: &chunks{send: func(piece []byte) error { _, err := out.Write(piece); return err }}}
				for _, record := range []arrow.RecordBatch{record, cleared(record)} {
					if err := file.write(record); err != nil {
						t.Fatal(err)
					}
				}
				if err := file.close(); err != nil {
					t.Fatal(err)
				}
				switch format {
				case "arrow":
					checkNull(t, format, schema, readArrow(t, out.Bytes()))
				case "parquet":
					checkNull(t, format, schema, readParquet(t, out.Bytes()))
				case "csv":
					lines, err := csv.NewReader(&out).ReadAll()
					if err != nil || len(lines) != 3 {
						t.Fatalf("%d lines, %v", len(lines), err)
					}
					for i, f := range schema.Fields[1:] {
						if lines[1][i+1] != "" || lines[2][i+1] != "" {
							t.Errorf("%s is %q in CSV", f.Name, lines[1][i+1])
						}
					}
				default:
					t.Errorf("no reader for %s", format)
				}
			}
			columns, _ := allCells(record)
			err := packRows(columns, 1, nil, func(rows []*pillionv1.Row) error {
				for i, f := range schema.Fields[1:] {
					if value := rows[0].Values[i+1]; value.GetKind() != nil {
						t.Errorf("%s is %v in a row", f.Name, value)
					}
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		})
	}
}

func checkNull(t *testing.T, format string, schema *measure.Schema, records []arrow.RecordBatch) {
	t.Helper()
	n := 0
	for _, record := range records {
		for i := range int(record.NumRows()) {
			n++
			for j, f := range schema.Fields[1:] {
				if !record.Column(j + 1).IsNull(i) {
					t.Errorf("%s is %s in %s", f.Name, record.Column(j+1).ValueStr(i), format)
				}
			}
		}
		record.Release()
	}
	if n != 2 {
		t.Errorf("%d rows in %s", n, format)
	}
}

// TestEmptyDistribution: statistics of nothing are NaN, which the page, JSON and tables show as
// unknown.
func TestEmptyDistribution(t *testing.T) {
	m := distributionMessage(&rows.Distribution{}, true)
	for name, value := range map[string]float64{
		"min": m.MinNs, "mean": m.MeanNs, "p50": m.P50Ns, "p90": m.P90Ns, "p99": m.P99Ns, "max": m.MaxNs,
	} {
		if !math.IsNaN(value) {
			t.Errorf("%s is %v", name, value)
		}
	}
	if m.Count != 0 || m.Histogram != nil {
		t.Errorf("%v", m)
	}
}
