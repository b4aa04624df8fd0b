package agent

import (
	"context"
	"time"

	"pillion.dev/agent/runner"
	"pillion.dev/measure"
	"pillion.dev/measure/point"
	"pillion.dev/session"
)

// The example point: a point needs no more than this file. Outside the tests it would be
// two files, in measure/point and agent/runner.

var exampleRows = measure.Schema{Name: "example", Doc: "rows of the example point", Fields: []measure.Field{
	measure.TimeField,
	{Name: "session", Type: measure.String, Doc: "session that asked for the row"},
	{Name: "path", Type: measure.String, Doc: "what was measured"},
	{Name: "packets", Type: measure.Uint64, Unit: "packets", Doc: "packets of the row"},
	{Name: "delay_ns", Type: measure.Int64, Unit: "ns", Doc: "time that they took"},
}}

func init() {
	point.Register(point.Descriptor{
		Name: "example", Doc: "an example for tests", Action: "count to a number", Cost: "2 rows in example for each number",
		Schemas: []*measure.Schema{&exampleRows}, Placement: point.OnAgents,
		Options: []point.Option{
			{Name: "count", Type: point.Integer, Default: "3", Min: "1", Max: "100", Doc: "how far it counts"},
			{Name: "paths", Type: point.Choice, Default: "both", Choices: []string{"short", "long", "both"}, Doc: "what is measured"},
		},
		Views: []point.View{
			{Title: "Last values", Kind: point.Table, Stream: "example", Columns: []string{"packets", "delay_ns"}, GroupBy: []string{"agent", "path"}},
			{Title: "Delay", Kind: point.Lines, Stream: "example", Columns: []string{"delay_ns"}, GroupBy: []string{"path"}, Weight: "packets"},
		},
	})
	runner.Register("example", runner.PerTask(runExample))
}

// exampleStart is the time of the rows: answers of the API are then the same in
// every run.
var exampleStart = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func runExample(ctx context.Context, task session.PointTask, sink runner.Sink) error {
	for n := range task.Options.Integer("count") {
		for i, path := range []string{"short", "long"} {
			if wanted := task.Options.Text("paths"); wanted != "both" && wanted != path {
				continue
			}
			sink(&exampleRows, measure.Sample{
				measure.TimeValue(exampleStart.Add(time.Duration(n)*time.Second + time.Duration(i)*time.Millisecond)), measure.StringValue(task.Session),
				measure.StringValue(path), measure.Uint64Value(uint64(n + 1)), measure.Int64Value((n + 1) * 1500 * int64(1+99*i)),
			})
		}
	}
	<-ctx.Done()
	return nil
}
