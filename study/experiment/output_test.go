package experiment

import (
	"strings"
	"testing"
)

func TestOutputs(t *testing.T) {
	for name, c := range map[string]struct {
		run     Run
		text    string
		measure Measure
		want    float64
		rows    int
	}{
		"json":           {Run{Format: "json"}, `{"rate": 3}`, Measure{Field: "rate"}, 3, 0},
		"json lines":     {Run{Format: "json"}, "{\"n\": 1}\n{\"n\": 2}\n{\"sum\": {\"n\": 3}}\n", Measure{Field: "sum.n"}, 3, 2},
		"json intervals": {Run{Format: "json", Intervals: "rows"}, `{"rows": [{"n": 1}, {"n": 5}]}`, Measure{Field: "rows.*.n", Summary: "mean"}, 3, 2},
		"json index":     {Run{Format: "json"}, `{"rows": [{"n": 1}, {"n": 5}]}`, Measure{Field: "rows.1.n"}, 5, 0},
		"csv":            {Run{Format: "csv"}, "t,rate\n1,10\n2,20\n3,60\n", Measure{Field: "rate", Summary: "mean"}, 30, 3},
		"csv one line":   {Run{Format: "csv"}, "t,a.b\n1,10\n", Measure{Field: "a.b"}, 10, 1},
		"median":         {Run{Format: "csv"}, "r\n1\n9\n2\n4\n", Measure{Field: "r", Summary: "median"}, 3, 4},
		"last":           {Run{Format: "csv"}, "r\n1\n9\n2\n4\n", Measure{Field: "r", Summary: "last"}, 4, 4},
		"count":          {Run{Format: "csv"}, "r\n1\n9\n2\n4\n", Measure{Field: "r", Summary: "count"}, 4, 4},
		"p50":            {Run{Format: "csv"}, "r\n1\n2\n3\n4\n", Measure{Field: "r", Summary: "p50"}, 2, 4},
		"iperf3 tcp": {Run{Format: "iperf3"}, `{"intervals": [{"sum": {"bytes": 1}}], "end": {"sum_sent": {"bits_per_second": 9}, "sum_received": {"bits_per_second": 8}}}`,
			Measure{Field: "bits_per_second"}, 8, 1},
		"iperf3 udp": {Run{Format: "iperf3"}, `{"intervals": [], "end": {"sum": {"bits_per_second": 7, "jitter_ms": 0.5, "lost_percent": 1}}}`,
			Measure{Field: "jitter_ms"}, 0.5, 0},
		"iperf3 both ways, up to 3.10": {Run{Format: "iperf3"}, `{"intervals": [{"sum": {"bytes": 1}, "sum": {"bytes": 2}}], "end": {"sum_received": {"bits_per_second": 8}, "sum_received": {"bits_per_second": 2}}}`,
			Measure{Field: "bits_per_second"}, 8, 1},
		"iperf3 with nan": {Run{Format: "iperf3"}, `{"intervals": [{"sum": {"lost_percent": -nan}}], "end": {"sum": {"jitter_ms": 0.5, "lost_percent": nan}}}`,
			Measure{Field: "jitter_ms"}, 0.5, 1},
	} {
		t.Run(name, func(t *testing.T) {
			o, err := c.run.ParseOutput([]byte(c.text))
			if err != nil {
				t.Fatal(err)
			}
			got, err := c.measure.Value(o)
			if err != nil || got != c.want || len(o.Intervals) != c.rows {
				t.Errorf("measure is %v, %v, with %d intervals; want %v with %d", got, err, len(o.Intervals), c.want, c.rows)
			}
		})
	}
}

func TestOutputMistakes(t *testing.T) {
	for name, c := range map[string]struct {
		run                 Run
		text, field, wanted string
	}{
		"empty":         {Run{Format: "json"}, "", "x", "it is empty"},
		"no json":       {Run{Format: "json"}, "rate 3", "x", "byte 0: invalid character"},
		"NaN":           {Run{Format: "json"}, `{"rate": NaN}`, "x", "byte 9: invalid character 'N'"},
		"text behind":   {Run{Format: "json"}, "{\"rate\": 3}\ndone\n", "x", `byte 12: invalid character 'd' looking for beginning of value, in "{\"rate\": 3}"; only JSON`},
		"null":          {Run{Format: "json"}, "null", "x", "null in place of an object"},
		"no field":      {Run{Format: "json"}, `{"a": 1, "b": 2}`, "x", "no field x; the output has a, b"},
		"no inner":      {Run{Format: "json"}, `{"a": {"b": 2}}`, "a.x", "no field a.x; a has b"},
		"text":          {Run{Format: "json"}, `{"a": "x"}`, "a", "a is x, not a number"},
		"list":          {Run{Format: "json"}, `{"a": [1, 2]}`, "a", "give a summary"},
		"empty list":    {Run{Format: "json"}, `{"a": []}`, "a.*", "list of 0"},
		"index":         {Run{Format: "json"}, `{"a": [1]}`, "a.4", "a is a list of 1"},
		"csv header":    {Run{Format: "csv"}, "a,b\n", "a", "at least one line"},
		"csv columns":   {Run{Format: "csv"}, "a,b\n1\n", "a", "wrong number of fields"},
		"csv infinite":  {Run{Format: "csv"}, "a\ninf\n", "a", "not a number"},
		"iperf3 error":  {Run{Format: "iperf3"}, `{"error": "unable to connect"}`, "a", "iperf3 says: unable to connect"},
		"iperf3 no end": {Run{Format: "iperf3"}, `{"start": {}}`, "a", "use iperf3 --json"},
		"no intervals":  {Run{Format: "json", Intervals: "a"}, `{"a": 1}`, "a", "a is not a list"},
	} {
		t.Run(name, func(t *testing.T) {
			o, err := c.run.ParseOutput([]byte(c.text))
			if err == nil {
				_, err = Measure{Field: c.field}.Value(o)
			}
			if err == nil || !strings.Contains(err.Error(), c.wanted) {
				t.Errorf("error is %v, want %q", err, c.wanted)
			}
		})
	}
}

func FuzzOutput(f *testing.F) {
	f.Add("json", "rows", "rows.*.n", "p9", []byte(`{"rows": [{"n": 1}]}`))
	f.Add("csv", "", "a", "mean", []byte("a,b\n1,2\n"))
	f.Add("iperf3", "", "bits_per_second", "", []byte(`{"intervals": [{"sum": {}}], "end": {"sum": {"bits_per_second": 1}}}`))
	f.Fuzz(func(t *testing.T, format, intervals, field, summary string, text []byte) {
		o, err := Run{Format: format, Intervals: intervals}.ParseOutput(text)
		if err != nil {
			return
		}
		if v, err := (Measure{Field: field, Summary: summary}).Value(o); err == nil && !isFinite(v) {
			t.Errorf("measure is %v", v)
		}
	})
}
