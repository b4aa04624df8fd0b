package web

import (
	"context"
	"fmt"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"pillion.dev/api/pillionv1"
	"pillion.dev/archive"
	"pillion.dev/server/sla"
	"pillion.dev/session"
)

const (
	levelPairs = 1000 // pairs of a report
	levelSpan  = 32 * day
	// levelTime limits a report: archives without roll-ups read every row of a month.
	levelTime = 30 * time.Minute
	// dayWindows is the number of windows in a day, of a minute each.
	dayWindows = 24 * 60
)

// ServiceLevels sends the service levels of the pairs in a scope, one by one.
func (f *flows) ServiceLevels(ctx context.Context, request *pillionv1.ServiceLevelsRequest, to *connect.ServerStream[pillionv1.ServiceLevelsResponse]) error {
	return f.serviceLevels(ctx, request, to.Send)
}

func (f *flows) serviceLevels(ctx context.Context, request *pillionv1.ServiceLevelsRequest, send func(*pillionv1.ServiceLevelsResponse) error) error {
	targets, err := targetsOf(request)
	if err != nil {
		return err
	}
	from, end, err := f.levelRange(request)
	if err != nil {
		return err
	}
	if err := checkText("session", request.GetSession()); err != nil {
		return err
	}
	wanted, err := f.scopes.wanted(callerOf(ctx), request.GetScope())
	if err != nil {
		return err
	}
	release, err := f.exports.take(ctx) // it reads as much as one
	if err != nil {
		return err
	}
	defer release()
	ctx, cancel := context.WithTimeout(ctx, levelTime)
	defer cancel()
	pairs, found, err := f.levelled(ctx, request.GetSession(), wanted, from, end)
	if err != nil {
		return fmt.Errorf("list pairs: %w", err)
	}
	head := &pillionv1.ServiceLevelsResponse{To: timestamppb.New(end), Found: small(int64(found)), Limits: callerOf(ctx).selectors}
	if err := send(head); err != nil {
		return err
	}
	for _, pair := range pairs {
		level, err := f.level(ctx, targets, archive.Selection{Source: pair.Source, Destination: pair.Destination, Session: request.GetSession()}, from, end)
		if err != nil {
			return fmt.Errorf("read service level of %s to %s: %w", pair.Source, pair.Destination, err)
		}
		message := levelMessage(&level)
		message.Source, message.Destination = validText(pair.Source), validText(pair.Destination)
		if err := send(&pillionv1.ServiceLevelsResponse{To: head.To, Found: head.Found, Level: message}); err != nil {
			return err
		}
	}
	return nil
}

// wanted is the scope that a request names; nil: everything. It cannot select by what the caller may not see.
func (s *scopes) wanted(who caller, selectors []string) (*archive.Scope, error) {
	if len(selectors) == 0 {
		return nil, nil
	}
	if err := session.Scope(selectors).Check(); err != nil {
		return nil, invalid("scope", "%w", err)
	}
	return resolveScope(selectors, hostsWithin(hostsOf(s.control), who)), nil
}

func targetsOf(request *pillionv1.ServiceLevelsRequest) (sla.Targets, error) {
	targets := sla.Targets{
		Availability: request.GetAvailability(), Outage: request.GetOutage(), Loss: request.GetLoss(),
		Quantile: request.GetQuantile(), Delay: time.Duration(request.GetDelayNs()),
	}
	for field, share := range map[string]float64{"availability": targets.Availability, "outage": targets.Outage, "loss": targets.Loss} {
		if !(share >= 0 && share <= 1) {
			return targets, invalid(field, "read %s %v: use a share from 0 to 1", field, share)
		}
	}
	if !(targets.Quantile > 0 && targets.Quantile < 1) {
		return targets, invalid("quantile", "read quantile %v: use a number between 0 and 1", targets.Quantile)
	}
	if targets.Delay < 0 {
		return targets, invalid("delay_ns", "read delay %v: use 0 (no target) or more", targets.Delay)
	}
	return targets, nil
}

// levelRange is the range of a request, until now at most, in whole minutes.
func (f *flows) levelRange(request *pillionv1.ServiceLevelsRequest) (from, to time.Time, err error) {
	if request.GetFrom() == nil || request.GetTo() == nil {
		return from, to, invalid("from", "read range: name its beginning and its end")
	}
	if from, to, err = f.span(request.GetFrom(), request.GetTo()); err != nil {
		return from, to, err
	}
	if to.Sub(from) > levelSpan {
		return from, to, invalid("to", "read range of %v: use at most %v", to.Sub(from), levelSpan)
	}
	if now := f.now(); to.After(now) {
		to = now
	}
	from, to = from.Truncate(time.Minute), to.Truncate(time.Minute)
	if !from.Before(to) {
		return from, to, invalid("from", "read range: %s is in the future, or less than a minute ago", from.UTC().Format(time.RFC3339))
	}
	return from, to, nil
}

// levelled are the pairs with packets in a range, those with most first, and how many there are.
func (f *flows) levelled(ctx context.Context, name string, wanted *archive.Scope, from, to time.Time) (pairs []session.Pair, found int, err error) {
	answer, err := f.archive.Flows(ctx, archive.Flows{
		Selection: archive.Selection{Session: name, Scope: wanted}, From: from, To: to, Granularity: "pair", Order: "packets", Limit: 2 * levelPairs,
	})
	if err != nil {
		return nil, 0, err
	}
	found = int(answer.Found)
	for i := range answer.Flows {
		one := &answer.Flows[i]
		switch {
		case one.Src == "": // marked by nobody that is known
			found--
		case len(pairs) < levelPairs:
			pairs = append(pairs, session.Pair{Source: one.Src, Destination: one.Dst})
		}
	}
	return pairs, found, nil
}

// level reads the windows of a pair by the day.
func (f *flows) level(ctx context.Context, targets sla.Targets, selection archive.Selection, from, to time.Time) (sla.Level, error) {
	pair := sla.NewPair(targets, from, to)
	for begin := from; begin.Before(to); begin = begin.Add(day) {
		end := begin.Add(day)
		if to.Before(end) {
			end = to
		}
		points := int(max(1, min(dayWindows, end.Sub(begin)/time.Minute)))
		answer, err := f.archive.Windows(ctx, archive.Windows{Selection: selection, From: begin, To: end, Points: points})
		if err != nil {
			return sla.Level{}, err
		}
		pair.Add(&answer)
	}
	return pair.Level(), nil
}

func levelMessage(l *sla.Level) *pillionv1.ServiceLevel {
	return &pillionv1.ServiceLevel{
		StepMs: l.Step.Milliseconds(), Up: small(int64(l.Up)), Down: small(int64(l.Down)), Silent: small(int64(l.Silent)),
		Availability: l.Availability, AvailabilityVerdict: string(l.AvailabilityIs),
		Expected: l.Expected, Lost: l.Lost, Loss: l.Loss.Value, LossLow: l.Loss.Low, LossHigh: l.Loss.High, LossVerdict: string(l.LossIs), LossDependence: l.Loss.Dependence,
		Delays: l.Delays, DelayNs: l.DelayNs, DelayLowNs: l.DelayLowNs, DelayHighNs: l.DelayHighNs, DelayVerdict: string(l.DelayIs),
		ClockErrorNs: l.ClockNs, ClockUnknown: l.ClockUnknown,
		Blocks: small(int64(l.Blocks)), BlockMs: l.BlockLength.Milliseconds(), Sampled: small(l.Sampled),
	}
}
