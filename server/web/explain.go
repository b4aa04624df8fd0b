package web

import (
	"context"
	"fmt"
	"slices"

	"pillion.dev/api"
	"pillion.dev/api/pillionv1"
	"pillion.dev/archive"
	"pillion.dev/internal/version"
	"pillion.dev/server/control"
	"pillion.dev/server/explain"
	"pillion.dev/session"
)

// ExplainPair returns why a pair is measured or not.
func (s *sessions) ExplainPair(ctx context.Context, request *pillionv1.ExplainPairRequest) (*pillionv1.ExplainPairResponse, error) {
	source, destination := request.GetSource(), request.GetDestination()
	for field, name := range map[string]string{"source": source, "destination": destination, "session": request.GetSession()} {
		if err := checkText(field, name); err != nil {
			return nil, err
		}
	}
	scope := scopeOf(ctx)
	if !scope.HasPair(source, destination) {
		return reasonsOf([]session.Reason{{
			Check: session.Check{Name: "scope", Level: session.LevelWarning, Found: "this token does not show packets from " + source + " to " + destination, Advice: "use a token whose scope includes the pair"},
			Where: source + " > " + destination,
		}}), nil
	}
	evidence := explain.Evidence{
		Source: s.endOf(source, scope), Destination: s.endOf(destination, scope), Version: version.Short(), Limited: scope != nil, Now: s.now(),
		Session: s.measuring(source, destination, request.GetSession(), scope),
	}
	first, second := min(source, destination), max(source, destination)
	if list := slices.Concat(s.clocks.Latest(first, second), s.clocks.Latest(second, first)); len(list) > 0 {
		evidence.Clock = &list[0]
	}
	if evidence.Measured() {
		if err := s.count(ctx, &evidence); err != nil {
			return nil, err
		}
	} else if evidence.Session == nil && scope == nil {
		plan := s.control.Plan(session.Spec{Name: "explained", Sources: []string{source}, Destinations: []string{destination}})
		evidence.Plan = &plan
	}
	return reasonsOf(evidence.Reasons()), nil
}

func reasonsOf(reasons []session.Reason) *pillionv1.ExplainPairResponse {
	return &pillionv1.ExplainPairResponse{Reasons: api.Messages[pillionv1.Reason](reasons)}
}

// endOf is an agent as a caller sees it. One that is unknown has only a name.
func (s *sessions) endOf(name string, scope *archive.Scope) control.Agent {
	found, err := s.control.Agent(name)
	switch {
	case err != nil || !scope.HasAgent(name):
		return control.Agent{Name: name}
	case scope != nil:
		return scopedAgent(found)
	}
	return found
}

// measuring is the session of that name, if any, else one that measures the pair, else the newest that did or would; nil: none.
func (s *sessions) measuring(source, destination, name string, scope *archive.Scope) (found *control.Session) {
	all, hosts := scopedSessions(s.control, scope), hostsOf(s.control)
	for i := range all {
		one := &all[i]
		if name != "" && one.Spec.Name != name || !explain.Measures(one, source, destination, hosts) {
			continue
		}
		if one.Active() {
			return one
		}
		if found == nil {
			found = one
		}
	}
	return found
}

// count counts the packets of the session in the last minute.
func (s *sessions) count(ctx context.Context, e *explain.Evidence) error {
	from, until := e.Count(e.Session.Started, e.Now)
	if !from.Before(until) {
		return nil
	}
	name := e.Session.Spec.Name
	windows, err := answerOf(ctx, s.rows.questions, s.rows.archive.Windows, archive.Windows{
		Selection: archive.Selection{Source: e.Source.Name, Destination: e.Destination.Name, Session: name}, From: from, To: until, Points: defaultWindows,
	})
	if err != nil {
		return fmt.Errorf("count packets of session %s: %w", name, err)
	}
	for _, w := range windows.Windows {
		e.Received += w.Packets
		e.Lost += w.Lost
	}
	if e.Limited {
		return nil
	}
	lines, err := answerOf(ctx, s.rows.questions, s.rows.archive.Series, archive.Series{
		Stream: "sent_flows", Columns: []archive.Aggregate{{Column: "packets", Function: "sum"}}, From: from, To: until, Points: 1,
		Where: map[string]string{"session": name, "agent": e.Source.Name, "peer": e.Destination.Name},
	})
	if err != nil {
		return fmt.Errorf("count sent packets of session %s: %w", name, err)
	}
	for _, line := range lines {
		for _, values := range line.Values {
			for _, packets := range values {
				e.Sent += uint64(max(packets, 0)) // NaN is 0
			}
		}
	}
	return nil
}
