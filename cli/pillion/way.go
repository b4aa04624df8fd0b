package pillion

import (
	"context"
	"crypto/rand"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"pillion.dev/api"
	"pillion.dev/api/pillionv1"
)

// way is what the server and two agents say about the network between them.
type way struct {
	server string // its version; empty: unknown
	ends   [2]end
	there  direction
	back   direction
	clock  *pillionv1.PairClock // nil: no estimate
}

// end is one of the two agents.
type end struct {
	*pillionv1.Agent
	checks []*pillionv1.Check // none: it is not connected
}

// direction is one direction of a way.
type direction struct {
	from, to string
	// plan is that of a session with the defaults.
	plan *pillionv1.PlanSessionResponse
	// session measures the direction; nil: none does.
	session *pillionv1.Session
	// sent are the numbered packets that the source says it sent; received and lost are what the destination counted.
	sent, received, lost uint64
	// period is how long they were counted.
	period time.Duration
	paths  []*pillionv1.Path
	// untraced is why there are no paths.
	untraced error
}

const (
	// settleTime is how long rows may take from hosts to the archive.
	settleTime = 10 * time.Second
	// countTime is how long packets of a session are counted; in less than countLeast, that there were none says nothing: paths
	// may still be validated.
	countTime  = time.Minute
	countLeast = 10 * time.Second
	// measureTime bounds a measurement by this program. Traces, which are marked as other packets are,
	// make sure that there is something to measure.
	measureTime  = time.Minute
	measureTrace = 5 * time.Second
)

// gatherWay asks for all that is known about a way, in parallel: checks of hosts and traces take seconds.
func gatherWay(ctx context.Context, client *api.Client, first, second string) (*way, error) {
	w := &way{there: direction{from: first, to: second}, back: direction{from: second, to: first}}
	for i, name := range []string{first, second} {
		answer, err := client.Agents.GetAgent(ctx, &pillionv1.GetAgentRequest{Name: name})
		if err != nil {
			return nil, failed("get agent "+name, err)
		}
		w.ends[i].Agent = answer.Agent
	}
	sessions, err := listSessions(ctx, client)
	if err != nil {
		return nil, failed("list sessions", err)
	}
	if build, err := client.Server.BuildInfo(ctx, &pillionv1.BuildInfoRequest{}); err == nil {
		w.server = build.Version
	}
	var failures [5]error
	var asking sync.WaitGroup
	for i := range w.ends {
		asking.Go(func() {
			if e := &w.ends[i]; e.State == stateConnected {
				e.checks, failures[i] = checkAgent(ctx, client, e.Name, []string{w.ends[1-i].Name})
			}
		})
	}
	for i, d := range []*direction{&w.there, &w.back} {
		asking.Go(func() { failures[2+i] = d.gather(ctx, client, sessions, w.ends[i].State == stateConnected) })
	}
	asking.Go(func() { w.clock, failures[4] = clockBetween(ctx, client, first, second) })
	asking.Wait()
	for _, err := range failures {
		if err != nil {
			return nil, err
		}
	}
	return w, nil
}

// clockBetween is the estimate of the offset between two clocks, as of a direction that has one.
func clockBetween(ctx context.Context, client *api.Client, first, second string) (*pillionv1.PairClock, error) {
	for _, names := range [][2]string{{first, second}, {second, first}} {
		answer, err := client.Flows.PairClocks(ctx, &pillionv1.PairClocksRequest{Source: names[0], Destination: names[1]})
		if err != nil {
			return nil, failed("get clocks", err)
		}
		if len(answer.Clocks) > 0 {
			return answer.Clocks[0], nil
		}
	}
	return nil, nil
}

// gather asks for a direction.
func (d *direction) gather(ctx context.Context, client *api.Client, sessions []*pillionv1.Session, connected bool) error {
	plan, err := client.Sessions.PlanSession(ctx, &pillionv1.PlanSessionRequest{Spec: &pillionv1.SessionSpec{
		Name: measurementName(), Sources: []string{d.from}, Destinations: []string{d.to},
	}})
	if err != nil {
		return failed("plan session from "+d.from+" to "+d.to, err)
	}
	d.plan = plan
	if connected {
		answer, err := client.Topology.Trace(ctx, &pillionv1.TraceRequest{Source: d.from, Destination: d.to})
		if d.paths = answer.GetPaths(); err != nil {
			d.untraced = failed("trace", err)
		}
	}
	at := slices.IndexFunc(sessions, func(s *pillionv1.Session) bool {
		return (s.State == "running" || s.State == "degraded") && d.isPairOf(s)
	})
	if at < 0 {
		return nil
	}
	return d.count(ctx, client, sessions[at].Spec.GetName(), time.Now().Add(-countTime-settleTime), countTime)
}

// isPairOf reports whether a session measures the direction.
func (d *direction) isPairOf(s *pillionv1.Session) bool {
	return slices.ContainsFunc(s.Pairs, func(p *pillionv1.Pair) bool { return p.Source == d.from && p.Destination == d.to })
}

// running begins a count in that part of a period in which a session has run: before it, no packet could be marked.
func (d *direction) running(session *pillionv1.Session, from time.Time, period time.Duration) (time.Time, time.Duration) {
	if s := session.Started; s != nil && s.AsTime().After(from) {
		from, period = s.AsTime(), max(0, period-s.AsTime().Sub(from))
	}
	d.session, d.period, d.sent, d.received, d.lost = session, period, 0, 0, 0
	return from, period
}

// count reads a session, and counts its packets in this direction in a period.
func (d *direction) count(ctx context.Context, client *api.Client, session string, from time.Time, period time.Duration) error {
	answer, err := client.Sessions.GetSession(ctx, &pillionv1.GetSessionRequest{Name: session})
	if err != nil {
		return failed("get session "+session, err)
	}
	from, period = d.running(answer.Session, from, period)
	if period == 0 {
		return nil
	}
	begin, end := timestamppb.New(from), timestamppb.New(from.Add(period))
	windows, err := client.Flows.Windows(ctx, &pillionv1.WindowsRequest{
		Selection: &pillionv1.Selection{Source: d.from, Destination: d.to, Session: session}, From: begin, To: end,
	})
	if err != nil {
		return failed("count packets of session "+session, err)
	}
	series, err := client.Data.Series(ctx, &pillionv1.SeriesRequest{
		Stream: "sent_flows", Aggregates: []*pillionv1.Aggregate{{Column: "packets", Function: "sum"}},
		Where: map[string]string{"session": session, "agent": d.from, "peer": d.to}, From: begin, To: end,
	})
	if err != nil {
		return failed("count sent packets of session "+session, err)
	}
	for _, window := range windows.Windows {
		d.received += window.Packets
		d.lost += window.Lost
	}
	for _, line := range series.Lines {
		for _, points := range line.Values {
			for _, packets := range points.Values {
				d.sent += uint64(max(packets, 0)) // NaN is 0
			}
		}
	}
	return nil
}

// measurementName is a name that no other session has.
func measurementName() string { return "doctor-" + strings.ToLower(rand.Text()[:10]) }

// measure runs a session for the directions that none measures, until packets have arrived in each of
// them, but not longer than a time.
func (w *way) measure(ctx context.Context, client *api.Client, most time.Duration) error {
	var directions []*direction
	for _, d := range []*direction{&w.there, &w.back} {
		if d.session == nil && len(d.plan.Problems) == 0 {
			directions = append(directions, d)
		}
	}
	if len(directions) == 0 || w.ends[0].State != stateConnected || w.ends[1].State != stateConnected {
		return nil
	}
	name, began := measurementName(), time.Now()
	_, err := client.Sessions.CreateSession(ctx, &pillionv1.CreateSessionRequest{Spec: &pillionv1.SessionSpec{
		Name: name, Sources: []string{directions[0].from}, Destinations: []string{directions[0].to}, Both: len(directions) == 2,
		Trace: durationpb.New(measureTrace), Duration: durationpb.New(most + settleTime),
	}})
	if err != nil {
		return failed("create session "+name, err)
	}
	defer endMeasurement(context.WithoutCancel(ctx), client, name)
	for {
		arrived := true
		for _, d := range directions {
			if err := d.count(ctx, client, name, began, time.Since(began)); err != nil {
				return err
			}
			arrived = arrived && d.received > 0
		}
		if arrived || time.Since(began) >= most {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
	}
}

// endMeasurement stops and deletes a session of this program. Its end is scheduled, too, so that an error
// leaves nothing that lasts.
func endMeasurement(ctx context.Context, client *api.Client, name string) {
	ctx, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	_, _ = client.Sessions.StopSession(ctx, &pillionv1.StopSessionRequest{Name: name})
	for ctx.Err() == nil {
		if _, err := client.Sessions.DeleteSession(ctx, &pillionv1.DeleteSessionRequest{Name: name}); err == nil {
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(200 * time.Millisecond):
		}
	}
}
