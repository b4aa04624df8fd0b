package web

import (
	"context"
	"fmt"
	"math"
	"time"

	"pillion.dev/api"
	"pillion.dev/api/pillionv1"
	"pillion.dev/server/control"
	"pillion.dev/session"
)

const (
	day  = 24 * time.Hour
	week = 7 * day
)

// sessions implements SessionService.
type sessions struct {
	control Control
	now     func() time.Time
	clocks  Clocks
	rows    *data
}

func specOf(message *pillionv1.SessionSpec) (session.Spec, error) {
	spec, problems := api.SpecOf(message)
	if len(problems) > 0 {
		return spec, &control.InvalidError{Problems: problems}
	}
	return spec, nil
}

// PlanSession returns what a specification would do.
func (s *sessions) PlanSession(_ context.Context, request *pillionv1.PlanSessionRequest) (*pillionv1.PlanSessionResponse, error) {
	spec, problems := api.SpecOf(request.GetSpec())
	if len(problems) > 0 {
		return &pillionv1.PlanSessionResponse{Spec: request.GetSpec(), Problems: api.Messages[pillionv1.Problem](problems)}, nil
	}
	return api.Message[pillionv1.PlanSessionResponse](s.control.Plan(spec)), nil
}

// CreateSession starts or schedules a session.
func (s *sessions) CreateSession(ctx context.Context, request *pillionv1.CreateSessionRequest) (*pillionv1.CreateSessionResponse, error) {
	spec, err := specOf(request.GetSpec())
	if err != nil {
		return nil, err
	}
	created, warnings, err := s.control.Create(ctx, spec, callerOf(ctx).token)
	if err != nil {
		return nil, err
	}
	return &pillionv1.CreateSessionResponse{Session: sessionMessage(created), Warnings: warnings}, nil
}

// ChangeSession replaces a session's specification.
func (s *sessions) ChangeSession(ctx context.Context, request *pillionv1.ChangeSessionRequest) (*pillionv1.ChangeSessionResponse, error) {
	spec, err := specOf(request.GetSpec())
	if err != nil {
		return nil, err
	}
	changed, warnings, err := s.control.Change(ctx, spec, callerOf(ctx).token)
	if err != nil {
		return nil, err
	}
	return &pillionv1.ChangeSessionResponse{Session: sessionMessage(changed), Warnings: warnings}, nil
}

// ListSessions returns sessions, newest first.
func (s *sessions) ListSessions(ctx context.Context, request *pillionv1.ListSessionsRequest) (*pillionv1.ListSessionsResponse, error) {
	page, next, err := pageOf(request, "", scopedSessions(s.control, scopeOf(ctx)), func(one control.Session) string {
		return fmt.Sprintf("%019d %s", math.MaxInt64-max(one.Created.UnixNano(), 0), one.Spec.Name)
	})
	if err != nil {
		return nil, err
	}
	response := &pillionv1.ListSessionsResponse{NextPageToken: next}
	for _, one := range page {
		response.Sessions = append(response.Sessions, sessionMessage(one))
	}
	return response, nil
}

// GetSession returns a session with its runs of the last and the next week.
func (s *sessions) GetSession(ctx context.Context, request *pillionv1.GetSessionRequest) (*pillionv1.GetSessionResponse, error) {
	found, err := s.control.Session(request.GetName())
	if err != nil {
		if scopeOf(ctx) != nil {
			err = unseenSession(request.GetName())
		}
		return nil, err
	}
	if scope := scopeOf(ctx); scope != nil {
		seen := false
		if found, seen = scopedSession(found, hostsOf(s.control), scope); !seen {
			return nil, unseenSession(request.GetName())
		}
	}
	runs := scopedRuns(s.control, s.control.Runs(s.now().Add(-week), s.now().Add(week), request.GetName()), scopeOf(ctx))
	return &pillionv1.GetSessionResponse{Session: sessionMessage(found), Runs: runMessages(runs), Reasons: api.Messages[pillionv1.Reason](found.Reasons)}, nil
}

// unseenSession is what a caller with a scope gets for a session, whether there is one or not.
func unseenSession(name string) error { return fmt.Errorf("session %q %w", name, control.ErrNotFound) }

// PauseSession stops marking until ResumeSession.
func (s *sessions) PauseSession(_ context.Context, request *pillionv1.PauseSessionRequest) (*pillionv1.PauseSessionResponse, error) {
	paused, err := s.control.Pause(request.GetName())
	return &pillionv1.PauseSessionResponse{Session: sessionMessage(paused)}, err
}

// ResumeSession resumes a paused session.
func (s *sessions) ResumeSession(_ context.Context, request *pillionv1.ResumeSessionRequest) (*pillionv1.ResumeSessionResponse, error) {
	resumed, err := s.control.Resume(request.GetName())
	return &pillionv1.ResumeSessionResponse{Session: sessionMessage(resumed)}, err
}

// StopSession ends a session permanently.
func (s *sessions) StopSession(_ context.Context, request *pillionv1.StopSessionRequest) (*pillionv1.StopSessionResponse, error) {
	stopped, err := s.control.Stop(request.GetName())
	return &pillionv1.StopSessionResponse{Session: sessionMessage(stopped)}, err
}

// DeleteSession deletes a session that has ended.
func (s *sessions) DeleteSession(_ context.Context, request *pillionv1.DeleteSessionRequest) (*pillionv1.DeleteSessionResponse, error) {
	return &pillionv1.DeleteSessionResponse{}, s.control.DeleteSession(request.GetName())
}

// runsSpan limits the range in which the runs of a cron schedule are listed.
const runsSpan = 366 * day

// ListRuns returns planned and past runs.
func (s *sessions) ListRuns(ctx context.Context, request *pillionv1.ListRunsRequest) (*pillionv1.ListRunsResponse, error) {
	from, to, err := rangeOf(request.GetFrom(), request.GetTo())
	if err != nil {
		return nil, err
	}
	if from.IsZero() {
		from = s.now()
	}
	if to.IsZero() {
		to = from.Add(week)
	}
	if to.Before(from) || to.Sub(from) > runsSpan {
		return nil, invalid("to", "read range: from %v to %v: use at most a year", from, to)
	}
	runs := scopedRuns(s.control, s.control.Runs(from, to, request.GetSession()), scopeOf(ctx))
	page, next, err := pageOf(request, request.GetSession(), runs, func(r control.Run) string {
		return fmt.Sprintf("%020d %s %s %d", max(r.Start.UnixNano(), 0), r.Session, r.State, r.End.UnixNano())
	})
	if err != nil {
		return nil, err
	}
	return &pillionv1.ListRunsResponse{Runs: runMessages(page), NextPageToken: next}, nil
}

func sessionMessage(s control.Session) *pillionv1.Session { return api.Message[pillionv1.Session](s) }

func problemMessages(all []session.Problem) []*pillionv1.Problem {
	return api.Messages[pillionv1.Problem](all)
}

func runMessages(runs []control.Run) []*pillionv1.Run { return api.Messages[pillionv1.Run](runs) }
