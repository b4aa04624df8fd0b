package server

import (
	"context"
	"time"

	"pillion.dev/server/event"
	"pillion.dev/server/steady"
	"pillion.dev/server/web"
)

// openClock opens the clock by which rows arrive and are removed.
func (s *server) openClock() (err error) {
	if s.clock, err = steady.Open(steady.Options{Folder: s.config.Folder, Boot: steady.Boot()}); err != nil {
		s.log.Warn("the time of the last run is lost: old rows are removed by the clock of this start", "error", err)
	}
	return nil
}

const clockEvery = 30 * time.Second

// followClock compares the clock with the wall clock and the agents' until the context ends.
func (s *server) followClock(ctx context.Context) {
	ticks := time.NewTicker(clockEvery)
	defer ticks.Stop()
	for {
		s.stepClock()
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
	}
}

// stepClock does so once, and reports when removing old rows is held, and when it goes on.
func (s *server) stepClock() {
	before := s.clock.Held()
	held, err := s.clock.Step()
	if err != nil {
		s.log.Warn("save the clock: after a restart, old rows may stay for longer", "error", err)
	}
	switch {
	case held != "" && before == "":
		s.local.Event(event.Event{Kind: "retention-held", Level: event.Warning, Message: "retention held: no row is removed by its age: " + held})
	case held == "" && before != "":
		s.local.Event(event.Event{Kind: "retention-resumed", Level: event.Info, Message: "old rows are removed again"})
	}
}

// clockHealth does not fail: a server that keeps too much serves all requests.
func (s *server) clockHealth() web.Part {
	part := web.Part{Name: "clock", OK: true, Detail: "old rows are removed"}
	if held := s.clock.Held(); held != "" {
		part.Detail = "retention held: " + held
	}
	return part
}
