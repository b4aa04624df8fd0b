package service

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"pillion.dev/agent/doctor"
	"pillion.dev/session"
)

// serve answers a request of the server.
func (s *service) serve(ctx context.Context, text []byte) ([]byte, error) {
	request, refused, err := session.ReadRequest(text)
	if err != nil {
		return nil, err
	}
	var reply session.Reply
	switch {
	case request.Apply != nil:
		reply.Tasks = s.apply(*request.Apply, refused)
	case request.Trace != nil:
		result := s.tracer.once(ctx, *request.Trace)
		reply.Trace, reply.Error = &result, result.Error
	case request.Doctor != nil:
		reply.Doctor = doctor.Check(ctx, doctor.Options{Peers: request.Doctor.Peers, Paths: s.runner.Paths(), Folder: s.config.Folder})
	default:
		return nil, fmt.Errorf("read request: unknown kind of request")
	}
	return json.Marshal(reply)
}

// apply runs an assignment, of which this version does not know the refused tasks. The
// server repeats whatever it finds not in effect.
func (s *service) apply(assignment session.Assignment, refused []session.TaskState) []session.TaskState {
	s.applying.Lock()
	defer s.applying.Unlock()
	for _, task := range refused {
		s.log.Warn("task refused", "session", task.Session, "role", task.Role, "reason", task.Error)
	}
	s.unknown.Store(&refused)
	tasks := s.runner.Apply(assignment)
	s.tracer.apply(s.ctx, assignment.Traces)
	return append(append(tasks, s.tracer.states()...), refused...)
}

// refused returns the tasks of the assignment that this version does not know.
func (s *service) refused() []session.TaskState {
	if tasks := s.unknown.Load(); tasks != nil {
		return *tasks
	}
	return nil
}

// pulse handles the heartbeat that the server sends about once a second.
func (s *service) pulse(text []byte) {
	var pulse session.Pulse
	if err := json.Unmarshal(text, &pulse); err != nil {
		s.log.Warn("read pulse", "error", err)
		return
	}
	s.runner.Pulse(pulse)
}

const reportEvery = time.Second

// report sends the state of this agent to the server, once a second and as soon as it is
// connected.
func (s *service) report(ctx context.Context) {
	ticks := time.NewTicker(reportEvery)
	defer ticks.Stop()
	for {
		s.reportOnce()
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		case <-s.linked:
		}
	}
}

func (s *service) reportOnce() {
	if !s.bus.Connected() {
		return
	}
	text, err := json.Marshal(s.state())
	if err == nil {
		err = s.bus.Report(text)
	}
	if err != nil {
		s.log.Warn("report state", "error", err)
		return
	}
	s.joined.Do(func() {
		if s.ready != nil {
			s.ready()
		}
	})
}
