package sender

import (
	"net/netip"
	"testing"

	"pillion.dev/send/dispatch"
	"pillion.dev/send/frame"
	"pillion.dev/send/model"
)

// TestFits: what is sent as drawn fits, what is sent at other times does not, and packets
// that were not sent take no part.
func TestFits(t *testing.T) {
	for name, row := range map[string]struct {
		scale float64
		want  model.Verdict
	}{"as drawn": {1, model.Consistent}, "stretched": {1.2, model.Inconsistent}} {
		m, err := model.ParseModel("interval=exponential(1ms) size=constant(200B) seed=9 count=5000")
		if err != nil {
			t.Fatal(err)
		}
		h := &frame.Header{Source: netip.MustParseAddr("::1"), Destination: netip.MustParseAddr("::2"), SourcePort: 5}
		options := Options{Model: m, Flows: map[string]*frame.Header{"": h}}
		drawn := &traffic{model: m}
		if err := drawn.plan(&options, 2); err != nil {
			t.Fatal(err)
		}
		if options.Flows["2"].SourcePort != 6 {
			t.Errorf("%+v", options.Flows)
		}
		const start = 1e15
		for e := range options.Schedule {
			r := dispatch.Record{Train: e.Train, Number: e.Number, Intended: start + int64(e.Due), Fate: dispatch.Sent}
			r.Handed = start + int64(float64(e.Due)*row.scale)
			if e.Number%10 == 9 {
				r = dispatch.Record{Train: e.Train, Number: e.Number, Intended: r.Intended}
			}
			drawn.sent(r)
		}
		for _, f := range drawn.fits() {
			if f.Drawn.Verdict != model.Consistent || f.Drawn.N != 5000 {
				t.Errorf("%s: %v", name, f)
			}
			if f.Drawn.What == "interval" && (f.Sent.Verdict != row.want || f.Sent.N != 4001) {
				t.Errorf("%s: %v", name, f)
			}
		}
	}
}
