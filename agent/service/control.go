package service

import (
	"context"
	"time"
)

const reportEvery = time.Second

// report sends the state of this agent to the server, once a second and as soon as it is
// connected. The last report says that the agent stops.
func (s *service) report(ctx context.Context) {
	ticks := time.NewTicker(reportEvery)
	defer ticks.Stop()
	for {
		s.reportOnce(false)
		select {
		case <-ctx.Done():
			s.reportOnce(true)
			return
		case <-ticks.C:
		case <-s.linked:
		}
	}
}

func (s *service) reportOnce(stopping bool) {
	if !s.bus.Connected() {
		return
	}
	state, err := s.state()
	state.Stopping = stopping
	var text []byte
	if err == nil {
		text, err = state.Encode()
	}
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
