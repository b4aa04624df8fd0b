package report

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"pillion.dev/agent/report"
	"pillion.dev/measure"
	_ "pillion.dev/measure/module" // streams of modules
	_ "pillion.dev/measure/point"  // streams of points
	"pillion.dev/oml/omsp"
)

// TestNotMeasured: of each column of each stream, a value that was not measured is null in JSON,
// absent from text, and NaN or empty in OMSP, which has nothing else: its integers have no null
// and are 0.
func TestNotMeasured(t *testing.T) {
	for _, schema := range measure.Standard() {
		t.Run(schema.Name, func(t *testing.T) {
			sample := append(measure.Sample{measure.TimeValue(time.Unix(1, 0))}, make(measure.Sample, len(schema.Fields)-1)...)
			var out bytes.Buffer
			if err := report.View(&out, true).Put(schema, sample); err != nil {
				t.Fatal(err)
			}
			var row map[string]any
			if err := json.Unmarshal(out.Bytes(), &row); err != nil {
				t.Fatal(err)
			}
			for _, f := range schema.Fields[1:] {
				if value, has := row[f.Name]; !has || value != nil {
					t.Errorf("%s is %v in JSON", f.Name, value)
				}
			}
			out.Reset()
			if err := report.View(&out, false).Put(schema, sample); err != nil {
				t.Fatal(err)
			}
			if strings.Contains(out.String(), "=") {
				t.Errorf("text has values: %s", out.String())
			}
			var values []omsp.Value
			fill(&values, schema, sample)
			for i, f := range schema.Fields[1:] {
				text, err := omsp.Append(nil, omsp.Text, &omsp.Tuple{Schema: &omsp.Schema{Index: 1, Name: "x", Fields: []omsp.Field{{Name: f.Name, Type: typeOf(f)}}}, Values: values[i : i+1]})
				if err != nil {
					t.Fatal(err)
				}
				columns := strings.Split(strings.TrimSuffix(string(text), "\n"), "\t")
				got := columns[len(columns)-1]
				switch typeOf(f) {
				case omsp.Double:
					if got != "nan" {
						t.Errorf("%s is %q in OMSP", f.Name, got)
					}
				case omsp.String, omsp.Blob:
					if got != "" {
						t.Errorf("%s is %q in OMSP", f.Name, got)
					}
				}
			}
		})
	}
}
