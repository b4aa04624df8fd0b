package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"pillion.dev/agent/runner"
	"pillion.dev/agent/view"
	"pillion.dev/measure/flows"
	"pillion.dev/probe/block"
	"pillion.dev/probe/destination"
)

// TestNotMeasured: what was not measured in an interval is null in JSON and a hyphen in a table,
// and never 0.
func TestNotMeasured(t *testing.T) {
	interval := runner.LocalRows{Time: time.Unix(1, 0), Hops: []runner.HopRow{{Delay: &flows.Distribution{}, Skipped: -1}}}
	var out bytes.Buffer
	v := deviceView{view.View{Out: &out, JSON: true}}
	err := errors.Join(v.Print(rowLine{Counts: destination.Counts{Packets: 3}}, ""), v.hops(interval), v.blocks([]block.Count{{Packets: 2}}),
		v.destinationSummary(destination.Tally{Reasons: map[string]uint64{}}, nil))
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for line := range strings.Lines(out.String()) {
		var object map[string]any
		if err := json.Unmarshal([]byte(line), &object); err != nil {
			t.Fatal(err)
		}
		found += nulls(t, line, object)
	}
	if want := 2*6 + 6 + 1 + 2*6; found != want { // a row, a hop, a block and the summary
		t.Errorf("%d values are null, want %d:\n%s", found, want, out.String())
	}
	out.Reset()
	v.JSON = false
	if err := v.destinationSummary(destination.Tally{}, nil); err != nil {
		t.Fatal(err)
	}
	if text := out.String(); !strings.Contains(text, "delay p50 -, p99 -, mean -;") {
		t.Errorf("the summary is\n%s", text)
	}
}

// nulls counts the members that are null, and fails on a delay of 0.
func nulls(t *testing.T, line string, object map[string]any) (n int) {
	t.Helper()
	for name, value := range object {
		switch value := value.(type) {
		case nil:
			n++
		case map[string]any:
			n += nulls(t, line, value)
			if strings.HasSuffix(name, "delay_ns") || strings.HasSuffix(name, "ipdv_ns") {
				for member, figure := range value {
					if member != "count" && figure != nil {
						t.Errorf("%s.%s is %v in %s", name, member, figure, line)
					}
				}
			}
		}
	}
	return n
}
