package service

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"pillion.dev/agent/doctor"
	"pillion.dev/session"
)

// serve answers one request of the server.
func (s *service) serve(ctx context.Context, text []byte) ([]byte, error) {
	var request session.Request
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&request); err != nil {
		return nil, fmt.Errorf("read request: %w", err)
	}
	var reply session.Reply
	switch {
	case request.Apply != nil:
		reply.Tasks = s.apply(*request.Apply)
	case request.Trace != nil:
		result := s.tracer.once(ctx, *request.Trace)
		reply.Trace, reply.Error = &result, result.Error
	case request.Doctor != nil:
		reply.Doctor = doctor.Check(ctx, doctor.Options{Peers: request.Doctor.Peers, Folder: s.config.Folder})
	default:
		return nil, fmt.Errorf("read request: it asks for nothing that this agent knows")
	}
	return json.Marshal(reply)
}

// apply makes the host do what is assigned. The server sends again whatever it
// finds is not in force.
func (s *service) apply(assignment session.Assignment) []session.TaskState {
	s.applying.Lock()
	defer s.applying.Unlock()
	tasks := s.runner.Apply(assignment)
	s.tracer.apply(s.ctx, assignment.Traces)
	return append(tasks, s.tracer.states()...)
}

// pulse hears what the server says about once a second.
func (s *service) pulse(text []byte) {
	var pulse session.Pulse
	if err := json.Unmarshal(text, &pulse); err != nil {
		s.log.Warn("read pulse", "error", err)
		return
	}
	s.runner.Pulse(pulse)
}

const reportEvery = time.Second

// report tells the server about this host, once a second and at once when the
// link comes up.
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
