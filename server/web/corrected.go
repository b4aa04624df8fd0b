package web

import (
	"context"
	"math"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"pillion.dev/api/pillionv1"
	"pillion.dev/archive"
	"pillion.dev/measure/histogram"
	"pillion.dev/measure/skew"
	clockpairs "pillion.dev/server/skew"
)

// PairClocks returns the latest estimates of clock offsets.
func (f *flows) PairClocks(ctx context.Context, request *pillionv1.PairClocksRequest) (*pillionv1.PairClocksResponse, error) {
	for field, value := range map[string]string{"source": request.GetSource(), "destination": request.GetDestination()} {
		if err := checkText(field, value); err != nil {
			return nil, err
		}
	}
	response := &pillionv1.PairClocksResponse{}
	scope := scopeOf(ctx)
	for _, p := range f.clocks.Latest(request.GetSource(), request.GetDestination()) {
		if !scope.HasPair(p.Source, p.Destination) && !scope.HasPair(p.Destination, p.Source) {
			continue
		}
		response.Clocks = append(response.Clocks, &pillionv1.PairClock{
			Source: validText(p.Source), Destination: validText(p.Destination),
			Segment: timestamppb.New(p.Segment), Since: timestamppb.New(p.Since), Until: timestamppb.New(p.Until),
			OffsetNs: p.OffsetNs, OffsetBoundNs: p.OffsetBoundNs, SkewPpb: p.SkewPPB, SkewBoundPpb: p.SkewBoundPPB,
			DriftNs: p.DriftNs, Points: small(int64(p.Points)),
		})
	}
	return response, nil
}

// finestMost bounds the finer windows of a range.
const finestMost = 10_000

// driftMost is the drift within half a window, ns, above which its rows are corrected in finer windows.
const driftMost = 500

// correct adds corrected delays to the windows of one pair. The offset of a long window is not
// one number: it is then read again in windows as short as the archive allows, and each is corrected by its own.
func (d *data) correct(ctx context.Context, question archive.Windows, answer *archive.WindowsAnswer, recent []skew.Estimate) (fine time.Duration, list []skew.Estimate, err error) {
	from, to := question.From.Add(-answer.Step), question.To.Add(answer.Step)
	list, err = clockpairs.Stored(ctx, d.archive, question.Source, question.Destination, from, to)
	if err != nil {
		return 0, nil, err
	}
	list, fine = append(list, recent...), answer.Step
	if len(list) == 0 || len(answer.Windows) == 0 {
		return fine, list, nil
	}
	parts := answer.Windows
	if steepest(list)*fine.Seconds()/2 > driftMost {
		if shorter := finest(question, answer.Step); shorter < fine {
			again := question
			again.Step, again.Points = shorter, 0
			again.From, again.To = answer.Windows[0].Start, answer.Windows[len(answer.Windows)-1].Start.Add(answer.Step)
			read, err := answerOf(ctx, d.questions, d.archive.Windows, again)
			if err != nil {
				return 0, nil, err
			}
			parts, fine = read.Windows, shorter
		}
	}
	place := 0
	for i := range parts {
		part := &parts[i]
		for place < len(answer.Windows)-1 && !part.Start.Before(answer.Windows[place+1].Start) {
			place++
		}
		at := part.Start.Add(fine / 2)
		if best, ok := skew.Best(list, at); ok {
			offset, _ := best.Offset(at)
			shifted := part.Delay.Shift(int64(math.Round(offset)))
			answer.Windows[place].Corrected.Merge(&shifted)
		}
	}
	return fine, list, nil
}

// steepest is the largest drift of estimates, ns per second.
func steepest(list []skew.Estimate) (most float64) {
	for _, e := range list {
		most = max(most, math.Abs(e.SkewPPB))
	}
	return most
}

// finest is the shortest round length of windows of which a whole number fits into the step and not too many into
// the range.
func finest(question archive.Windows, step time.Duration) time.Duration {
	span := question.To.Sub(question.From) + 2*step
	for least := time.Duration(0); ; {
		shorter := archive.StepOf(max(least, span/finestMost))
		if shorter >= step || step%shorter == 0 {
			return min(shorter, step)
		}
		least = shorter + 1
	}
}

// correctedMessage is nil unless all delays of the window were corrected. fine is the length of windows that
// were corrected at once.
func correctedMessage(w *archive.Window, step, fine time.Duration, list []skew.Estimate, histograms bool) *pillionv1.CorrectedDelay {
	middle := w.Start.Add(step / 2)
	best, ok := skew.Best(list, middle)
	if !ok || w.Corrected.Count == 0 || w.Corrected.Count != w.Delay.Count {
		return nil
	}
	offset, bound := best.Offset(middle)
	drift := best.DriftNs + math.Abs(best.SkewPPB)*fine.Seconds()/2
	for _, at := range []time.Time{w.Start, w.Start.Add(step)} {
		if edge, ok := skew.Best(list, at); ok {
			_, other := edge.Offset(at)
			bound = max(bound, other)
		}
	}
	median := w.Delay.Quantile(0.5)
	return &pillionv1.CorrectedDelay{
		Delay: distributionMessage(&w.Corrected, histograms), OffsetNs: offset, BoundNs: bound + drift,
		SkewPpb: best.SkewPPB, SkewBoundPpb: best.SkewBoundPPB, DriftNs: drift,
		ResolutionNs: float64(histogram.Width(histogram.Index(int64(median)))), SegmentMs: best.Segment.UnixMilli(),
	}
}
