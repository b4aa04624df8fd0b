package service

import (
	"context"
	"time"
)

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
	state, err := s.state()
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
