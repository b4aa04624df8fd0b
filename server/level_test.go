package server_test

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"pillion.dev/api/pillionv1"
	"pillion.dev/measure"
	"pillion.dev/measure/flows"
	"pillion.dev/measure/measuretest"
)

// TestServiceLevelsOfAnArchive: twelve hours of rows of ten seconds with an outage of 17 minutes and a silence of 40, in the archive, give
// exactly these minutes; a scope of the request, and that of a token, limit the pairs.
func TestServiceLevelsOfAnArchive(t *testing.T) {
	s := start(t, t.TempDir()+"/data")
	begin := time.Now().Add(-13 * time.Hour).Truncate(time.Hour)
	var rows []flows.Row
	for i := range 12 * 360 {
		at := begin.Add(time.Duration(i) * 10 * time.Second)
		if minute := i / 6; minute >= 300 && minute < 340 {
			continue
		}
		row := flows.Row{End: at.Add(10 * time.Second), Interval: 10 * time.Second, Session: "s", Source: "a", SourceClock: flows.BoundOf(1000), DestinationClock: flows.BoundOf(2000),
			Sum: flows.Sum{Counts: flows.Counts{Packets: 100, Bytes: 100, Expected: 100}}}
		row.Delay.Add(3e6)
		if minute := i / 6; minute >= 100 && minute < 117 {
			row.Counts = flows.Counts{Expected: 100, Lost: 100}
			row.Delay = flows.Distribution{}
		}
		rows = append(rows, row)
	}
	other := flows.Row{End: begin.Add(time.Minute), Interval: time.Second, Session: "s", Source: "c", Sum: flows.Sum{Counts: flows.Counts{Packets: 1, Expected: 1}}}
	e, err := measure.Encode(measure.Key{Stream: "flows", Epoch: 1}, measuretest.Flows(t, append(rows, other)...))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "c"} {
		s.enrol(t, name)
	}
	agent := s.agent(t, "b")
	within(t, "the batch is stored", func() bool { return agent.Send(t.Context(), e) == nil })
	request := &pillionv1.ServiceLevelsRequest{
		From: timestamppb.New(begin), To: timestamppb.New(begin.Add(12 * time.Hour)), Availability: 0.99, Outage: 0.2, Loss: 0.5, Quantile: 0.99, DelayNs: 5e6,
	}
	ask := func(token string, scope ...string) (levels []*pillionv1.ServiceLevel) {
		request.Scope = scope
		stream, err := s.client(t, token).Flows.ServiceLevels(t.Context(), request)
		if err != nil {
			t.Fatal(err)
		}
		defer stream.Close()
		for stream.Receive() {
			if level := stream.Msg().Level; level != nil {
				levels = append(levels, level)
			}
		}
		if err := stream.Err(); err != nil {
			t.Fatal(err)
		}
		return levels
	}
	all := ask(s.operator)
	if len(all) != 2 || all[0].Source != "a" || all[1].Source != "c" {
		t.Fatalf("levels %v", all)
	}
	l := all[0]
	if l.Down != 17 || l.Silent != 40 || l.Up != 12*60-57 || l.StepMs != 60_000 || l.Lost != 17*600 || l.Expected != uint64(100*len(rows)) || l.Blocks != 12 || l.ClockErrorNs != 3000 {
		t.Errorf("level %v", l)
	}
	if l.AvailabilityVerdict != "missed" || l.LossVerdict != "met" || l.DelayVerdict != "met" || !(l.DelayLowNs > 2.8e6 && l.DelayHighNs < 3.3e6) {
		t.Errorf("verdicts %v", l)
	}
	if silent := all[1]; silent.Up != 1 || silent.Down != 0 || silent.DelayVerdict != "undecided" || silent.LossVerdict != "undecided" {
		t.Errorf("of one packet %v", silent)
	}
	for name, levels := range map[string][]*pillionv1.ServiceLevel{
		"scope of the request": ask(s.operator, "a:b"), "scope of a token": ask(s.scoped(t, "a:b").operator), "both": ask(s.scoped(t, "a", "b").operator, "*"),
	} {
		if len(levels) != 1 || levels[0].Source != "a" {
			t.Errorf("%s: %v", name, levels)
		}
	}
	if levels := ask(s.scoped(t, "c").operator, "a:b"); len(levels) != 0 {
		t.Errorf("beyond the scope of a token: %v", levels)
	}
}
