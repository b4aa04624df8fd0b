package bus

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"pillion.dev/internal/quota"
)

// states passes agents' states to a handler: of each agent only the newest that is
// waiting, the agents in turn. So one that reports too often delays only itself.
type states struct {
	rate  *rates // reports
	bytes *rates
	limit int

	mu      sync.Mutex
	newest  map[string][]byte
	turns   []string
	wake    chan struct{}
	handler func(agent string, state []byte)
}

const (
	// StatesPerSecond is the default limit of an agent's reports; agents send one.
	StatesPerSecond = 4
	// stateBytes limits the bytes of an agent's reports per second; at first it may send
	// as many as the largest state has.
	stateBytes = 256 << 10
	stateBurst = 2 << 20
	// largeState is the size from which a state waits in a separate queue, so that the others, which are a few KiB,
	// do not wait until it is read.
	largeState = 64 << 10
	// floodFactor is how far beyond its limit an agent's messages may be before it is
	// disconnected.
	floodFactor = 50
)

func newStates(limit int, handler func(string, []byte)) *states {
	return &states{
		rate: newRates(float64(limit), 4*limit), bytes: newRates(stateBytes, stateBurst), limit: limit,
		newest: map[string][]byte{}, wake: make(chan struct{}, 1), handler: handler,
	}
}

// put queues a state. An error refuses it.
func (s *states) put(agent string, state []byte, now time.Time) error {
	if !s.rate.take(agent, 1, now) || !s.bytes.take(agent, len(state), now) {
		return &quota.Error{Quota: "states", Limit: int64(s.limit), Unit: fmt.Sprintf("state reports per second and %d KiB for each agent", stateBytes>>10),
			What: "process a state report", Later: true}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, waiting := s.newest[agent]; !waiting {
		s.turns = append(s.turns, agent)
	}
	s.newest[agent] = state
	select {
	case s.wake <- struct{}{}:
	default:
	}
	return nil
}

func (s *states) run(done <-chan struct{}) {
	for {
		s.mu.Lock()
		agent, state := "", []byte(nil)
		if len(s.turns) > 0 {
			agent = s.turns[0]
			state = s.newest[agent]
			s.turns = s.turns[1:]
			delete(s.newest, agent)
		}
		s.mu.Unlock()
		if agent != "" {
			s.handler(agent, state)
			continue
		}
		select {
		case <-s.wake:
		case <-done:
			return
		}
	}
}

// forget drops a waiting state because a newer one waits in the other queue.
func (s *states) forget(agent string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, waiting := s.newest[agent]; waiting {
		delete(s.newest, agent)
		s.turns = slices.DeleteFunc(s.turns, func(name string) bool { return name == agent })
	}
}

// ServeStates calls the handler for each agent's newest state, two at a time. Reports
// beyond the rate are dropped, and reported to Exceeded.
func (s *Server) ServeStates(handler func(agent string, state []byte)) error {
	queue := newStates(s.options.States, handler)
	large := newStates(s.options.States, handler)
	large.rate, large.bytes = queue.rate, queue.bytes
	subscription, err := s.conn.Subscribe(stateSubject("*"), func(m *nats.Msg) {
		agent := strings.TrimPrefix(m.Subject, stateSubject(""))
		if !ValidAgent(agent) {
			return
		}
		to, other := queue, large
		if len(m.Data) >= largeState {
			to, other = large, queue
		}
		if err := to.put(agent, m.Data, time.Now()); err != nil {
			s.overstep(agent, err)
			return
		}
		other.forget(agent)
	})
	if err == nil {
		err = subscription.SetPendingLimits(queueMessages, queueBytes/4)
	}
	if err == nil {
		err = s.conn.FlushTimeout(closeTime)
	}
	if err != nil {
		return fmt.Errorf("serve states: %w", err)
	}
	s.workers.Go(func() { queue.run(s.done) })
	s.workers.Go(func() { large.run(s.done) })
	return nil
}

// overstep reports a message beyond an agent's quota.
func (s *Server) overstep(agent string, err error) {
	s.exceeded.Add(1)
	if s.options.Exceeded != nil {
		s.options.Exceeded(agent, err)
	}
	s.flood(agent, err)
}

// flood counts a message that was refused. An agent that goes on regardless is
// disconnected for a while, and told why: reading its messages costs others.
func (s *Server) flood(agent string, err error) {
	if !s.floods.take(agent, 1, time.Now()) && s.options.InProcess != nil {
		s.options.InProcess.suspend(agent, err)
	}
}
