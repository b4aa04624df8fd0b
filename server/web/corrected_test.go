package web

import (
	"math"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"pillion.dev/api/pillionv1"
	"pillion.dev/archive"
	"pillion.dev/measure"
	rows "pillion.dev/measure/flows"
	"pillion.dev/measure/histogram"
)

// drifting answers with windows of packets every 10 ms whose true delay is 5 ms, by clocks as fakeClocks has them.
func drifting(question archive.Windows) archive.WindowsAnswer {
	answer := archive.WindowsAnswer{Step: question.Step, Sampled: 1}
	if answer.Step == 0 {
		answer.Step = 30 * time.Second
	}
	from := question.From.Truncate(answer.Step)
	for start := from; start.Before(question.To); start = start.Add(answer.Step) {
		w := archive.Window{Start: start}
		for at := start; at.Before(start.Add(answer.Step)); at = at.Add(10 * time.Millisecond) {
			delay := int64(5e6 + 2e6 + 50e3*at.Sub(epoch).Seconds())
			var h histogram.Histogram
			h.Add(delay)
			w.Merge(&rows.Sum{Counts: rows.Counts{Packets: 1}, Delay: rows.NewDistribution(1, delay, delay, delay, h)})
		}
		answer.Windows = append(answer.Windows, w)
	}
	return answer
}

// TestCorrectedWindows: in 30 s the clocks drift by 1.5 ms; the corrected delays are nevertheless those of the path.
func TestCorrectedWindows(t *testing.T) {
	s := newSite(t)
	s.archive.windows = drifting
	request := &pillionv1.WindowsRequest{
		Selection: &pillionv1.Selection{Source: "a", Destination: "b"}, Histograms: true, Corrected: true,
		From: timestamppb.New(epoch), To: timestamppb.New(epoch.Add(time.Minute)),
	}
	response, err := s.flows(t, "viewer").Windows(t.Context(), request)
	if err != nil || len(response.Windows) < 2 {
		t.Fatalf("got %v, %v", response, err)
	}
	for _, w := range response.Windows {
		c := w.Corrected
		if c == nil {
			t.Fatalf("window %d is not corrected", w.StartMs)
		}
		if spread := w.Delay.MaxNs - w.Delay.MinNs; spread < 1.4e6 {
			t.Errorf("raw delays were changed: spread %v ns", spread)
		}
		for name, got := range map[string]float64{"min": c.Delay.MinNs, "mean": c.Delay.MeanNs, "median": c.Delay.P50Ns, "p99": c.Delay.P99Ns, "max": c.Delay.MaxNs} {
			if math.Abs(got-5e6) > 10e3 {
				t.Errorf("window %d: corrected %s %v ns, want 5 ms within 10 µs", w.StartMs, name, got)
			}
		}
		if c.Delay.Count != w.Delay.Count || c.Delay.Histogram == nil || c.BoundNs < 1e6 || c.BoundNs > 1.1e6 || c.SkewPpb != 50e3 || c.ResolutionNs < 131072 || c.ResolutionNs > 262144 {
			t.Errorf("window %d: corrected %v", w.StartMs, c)
		}
	}
	request.Corrected = false
	if response, err = s.flows(t, "viewer").Windows(t.Context(), request); err != nil || response.Windows[0].Corrected != nil {
		t.Errorf("corrected without a request: %v, %v", response, err)
	}
	request.Corrected, request.Selection.Source = true, "c"
	if response, err = s.flows(t, "viewer").Windows(t.Context(), request); err != nil || response.Windows[0].Corrected != nil {
		t.Errorf("corrected without an estimate: %v, %v", response, err)
	}
	request.Selection.Source = ""
	if _, err = s.flows(t, "viewer").Windows(t.Context(), request); connect.CodeOf(err) != connect.CodeInvalidArgument {
		t.Errorf("corrected windows of several pairs: %v", err)
	}
}

// TestCorrectedWatch corrects windows as they grow.
func TestCorrectedWatch(t *testing.T) {
	s := newSite(t)
	stream, err := s.flows(t, "viewer").WatchWindows(t.Context(), &pillionv1.WatchWindowsRequest{
		Selection: &pillionv1.Selection{Source: "a", Destination: "b"}, Corrected: true, StepMs: 1000,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	if !stream.Receive() {
		t.Fatal(stream.Err())
	}
	publish(s, "b", &measure.Flows, flowsRecord(t, epoch.Truncate(time.Second).Add(time.Second), 10, "a"))
	for stream.Receive() {
		if windows := stream.Msg().Windows; len(windows) > 0 {
			w := windows[0]
			offset := 2e6 + 50e3*epoch.Truncate(time.Second).Add(time.Second/2).Sub(epoch).Seconds()
			if c := w.Corrected; c == nil || math.Abs(c.Delay.MeanNs-(5e6-offset)) > 1 || math.Abs(c.OffsetNs-offset) > 1 || w.Delay.MeanNs != 5e6 {
				t.Errorf("window %v, want the mean less %v ns", w, offset)
			}
			return
		}
	}
	t.Fatal(stream.Err())
}

func TestPairClocks(t *testing.T) {
	s := newSite(t)
	response, err := s.flows(t, "viewer").PairClocks(t.Context(), &pillionv1.PairClocksRequest{})
	if err != nil || len(response.Clocks) != 1 {
		t.Fatalf("got %v, %v", response, err)
	}
	if c := response.Clocks[0]; c.Source != "a" || c.Destination != "b\uFFFD" || c.SkewPpb != 50e3 || c.OffsetBoundNs != 1e6 || c.Points != 200 || !c.Until.AsTime().Equal(epoch.Add(time.Minute)) {
		t.Errorf("got %v", c)
	}
	if _, err := s.flows(t, "viewer").PairClocks(t.Context(), &pillionv1.PairClocksRequest{Source: "a\x00"}); connect.CodeOf(err) != connect.CodeInvalidArgument {
		t.Errorf("got %v", err)
	}
}
