package web

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/timestamppb"

	"pillion.dev/api/pillionv1"
	"pillion.dev/archive"
	rows "pillion.dev/measure/flows"
	"pillion.dev/measure/skew"
	"pillion.dev/server/live"
)

const (
	flowTimeout    = time.Minute
	defaultWindows = 300
	maxWindows     = 4000
	defaultFlows   = 100
	maxFlows       = 1000
	maxSelected    = 256 // bytes of a text of a selection
)

var (
	granularities = []string{"flow", "host-port", "host", "pair"}
	flowOrders    = []string{"packets", "bytes", "lost", "p50", "p90", "p99", "max", "last"}
)

// flows implements FlowService.
type flows struct {
	*data
	seconds *live.Pairs
	// siteLabel names the site of an agent.
	siteLabel string
	clocks    Clocks
	pods      Pods
	control   Control
	scopes    *scopes
}

// Windows returns the sums of a time range in windows.
func (f *flows) Windows(ctx context.Context, request *pillionv1.WindowsRequest) (*pillionv1.WindowsResponse, error) {
	question := archive.Windows{Points: int(cmp.Or(request.GetPoints(), defaultWindows))}
	if question.Points > maxWindows {
		return nil, invalid("points", "read points %d: use at most %d", request.GetPoints(), maxWindows)
	}
	var err error
	if question.Selection, err = selectionOf(request.GetSelection()); err != nil {
		return nil, err
	}
	if request.GetCorrected() && (question.Source == "" || question.Destination == "") {
		return nil, invalid("corrected", "read windows: corrected delays are of one pair of hosts: name its source and destination")
	}
	if question.From, question.To, err = f.span(request.GetFrom(), request.GetTo()); err != nil {
		return nil, err
	}
	answer, err := answerOf(ctx, f.questions, f.archive.Windows, question)
	if err != nil {
		return nil, fmt.Errorf("read windows: %w", err)
	}
	response := &pillionv1.WindowsResponse{StepMs: answer.Step.Milliseconds(), Sampled: small(answer.Sampled)}
	var fine time.Duration
	var estimates []skew.Estimate
	if request.GetCorrected() {
		if fine, estimates, err = f.correct(ctx, question, &answer, f.clocks.Recent(question.Source, question.Destination)); err != nil {
			return nil, fmt.Errorf("correct windows: %w", err)
		}
	}
	for i := range answer.Windows {
		message := windowMessage(&answer.Windows[i], request.GetHistograms())
		message.Corrected = correctedMessage(&answer.Windows[i], answer.Step, fine, estimates, request.GetHistograms())
		response.Windows = append(response.Windows, message)
	}
	for _, name := range answer.Sessions {
		response.Sessions = append(response.Sessions, validText(name))
	}
	return response, nil
}

// ListFlows returns the sums of a time range by flow.
func (f *flows) ListFlows(ctx context.Context, request *pillionv1.ListFlowsRequest) (*pillionv1.ListFlowsResponse, error) {
	question, err := f.flowsOf(request)
	if err != nil {
		return nil, err
	}
	if question.Search != "" {
		believe := scopeOf(ctx).HasAgent
		question.SearchSrc = f.pods.Search(question.Search, question.Source, believe)
		question.SearchDst = f.pods.Search(question.Search, question.Destination, believe)
	}
	answer, err := answerOf(ctx, f.questions, f.archive.Flows, question)
	if err != nil {
		return nil, fmt.Errorf("list flows: %w", err)
	}
	response := &pillionv1.ListFlowsResponse{Found: small(answer.Found), Sampled: small(answer.Sampled)}
	for i := range answer.Flows {
		flow := &answer.Flows[i]
		response.Flows = append(response.Flows, &pillionv1.Flow{
			Src: validText(flow.Src), Dst: validText(flow.Dst), Proto: validText(flow.Proto), Sport: flow.Sport, Dport: flow.Dport,
			Total: windowMessage(&flow.Window, false), Last: timestamppb.New(flow.Last),
			SrcPod: f.podMessage(ctx, flow.Src, question.Source), DstPod: f.podMessage(ctx, flow.Dst, question.Destination),
		})
	}
	return response, nil
}

// podMessage is the pod with an address according to an agent, or to those in the caller's scope.
func (f *flows) podMessage(ctx context.Context, address, agent string) *pillionv1.Pod {
	p, known := f.pods.Find(address, agent, scopeOf(ctx).HasAgent)
	if !known {
		return nil
	}
	return &pillionv1.Pod{
		Namespace: validText(p.Namespace), Name: validText(p.Name), Node: validText(p.Node), Seen: timestamppb.New(p.Seen), Held: p.Held,
	}
}

func (f *flows) flowsOf(request *pillionv1.ListFlowsRequest) (archive.Flows, error) {
	question := archive.Flows{
		Granularity: cmp.Or(request.GetGranularity(), granularities[0]), Order: cmp.Or(request.GetOrder(), flowOrders[0]),
		Ascending: request.GetAscending(), Search: request.GetSearch(), Limit: int(cmp.Or(request.GetLimit(), defaultFlows)),
	}
	if !slices.Contains(granularities, question.Granularity) {
		return question, invalid("granularity", "read granularity %q: there are %s", question.Granularity, strings.Join(granularities, ", "))
	}
	if !slices.Contains(flowOrders, question.Order) {
		return question, invalid("order", "read order %q: there are %s", question.Order, strings.Join(flowOrders, ", "))
	}
	if question.Limit > maxFlows {
		return question, invalid("limit", "read limit %d: use at most %d", request.GetLimit(), maxFlows)
	}
	if err := checkText("search", question.Search); err != nil {
		return question, err
	}
	var err error
	if question.Selection, err = selectionOf(request.GetSelection()); err != nil {
		return question, err
	}
	question.From, question.To, err = f.span(request.GetFrom(), request.GetTo())
	return question, err
}

// span reads a time range, by default the last hour, and limits it to what the archive can
// hold.
func (d *data) span(from, to *timestamppb.Timestamp) (time.Time, time.Time, error) {
	start, end, err := rangeOf(from, to)
	if err != nil {
		return start, end, err
	}
	if to == nil {
		end = d.now()
	}
	if from == nil {
		start = end.Add(-time.Hour)
	}
	// The archive's times are ns since 1970 in 64 bits.
	least, most := time.Unix(0, 0), time.Unix(0, math.MaxInt64).Add(-10*365*day)
	if start.Before(least) {
		start = least
	}
	if end.After(most) {
		end = most
	}
	if !start.Before(end) {
		return start, end, invalid("from", "read range: %v is not before %v", start, end)
	}
	return start, end, nil
}

func selectionOf(m *pillionv1.Selection) (archive.Selection, error) {
	s := archive.Selection{
		Source: m.GetSource(), Destination: m.GetDestination(), Session: m.GetSession(),
		Flow: rows.Flow{Src: m.GetSrc(), Dst: m.GetDst(), Proto: m.GetProto(), Sport: m.GetSport(), Dport: m.GetDport()},
	}
	for _, text := range []struct{ field, value string }{
		{"source", s.Source}, {"destination", s.Destination}, {"session", s.Session}, {"src", s.Src}, {"dst", s.Dst}, {"proto", s.Proto},
	} {
		if err := checkText("selection."+text.field, text.value); err != nil {
			return s, err
		}
	}
	for _, port := range []struct {
		field string
		value uint32
	}{{"sport", s.Sport}, {"dport", s.Dport}} {
		if port.value > math.MaxUint16 {
			return s, invalid("selection."+port.field, "read %s %d: use 0 (any) to 65535", port.field, port.value)
		}
	}
	return s, nil
}

// checkText rejects text that no row can contain.
func checkText(field, text string) error {
	if len(text) > maxSelected {
		return invalid(field, "read %s: %d bytes, use at most %d", field, len(text), maxSelected)
	}
	if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
		return invalid(field, "read %s %q: not a text", field, text)
	}
	return nil
}

func windowMessage(w *archive.Window, histograms bool) *pillionv1.Window {
	return &pillionv1.Window{
		StartMs: w.Start.UnixMilli(), Packets: w.Packets, Bytes: w.Bytes, Expected: w.Expected, Lost: w.Lost,
		Duplicated: w.Duplicated, Reordered: w.Reordered, Late: w.Late, Unchecked: w.Unchecked, ClockErrorNs: w.ClockError.Float(),
		Delay: distributionMessage(&w.Delay, histograms), Ipdv: distributionMessage(&w.IPDV, histograms),
	}
}

func distributionMessage(d *rows.Distribution, histograms bool) *pillionv1.Distribution {
	least, mean, most := d.Extremes()
	m := &pillionv1.Distribution{
		Count: d.Count, MinNs: least, MeanNs: mean, P50Ns: d.Quantile(0.5), P90Ns: d.Quantile(0.9), P99Ns: d.Quantile(0.99), MaxNs: most,
	}
	if h := &d.Histogram; histograms && !h.Empty() {
		m.Histogram = &pillionv1.Histogram{BoundsNs: floats(h.Bounds), Counts: floats(h.Counts), OffsetsNs: floats(h.Offsets)}
	}
	return m
}

func floats[N int64 | uint64](list []N) []float64 {
	to := make([]float64, len(list))
	for i, n := range list {
		to[i] = float64(n)
	}
	return to
}

// small clamps a number to 32 bits.
func small(n int64) uint32 { return uint32(max(0, min(n, math.MaxUint32))) }

const (
	minStep = 100 * time.Millisecond
	maxStep = day
)

// stepOf reads the length of windows; 0 means the interval of the rows.
func stepOf(ms int64) (time.Duration, error) {
	if ms == 0 {
		return 0, nil
	}
	if ms < minStep.Milliseconds() || ms > maxStep.Milliseconds() {
		return 0, invalid("step_ms", "read step %d ms: use 0 (the interval of the rows) or %d to %d", ms, minStep.Milliseconds(), maxStep.Milliseconds())
	}
	return time.Duration(ms) * time.Millisecond, nil
}
