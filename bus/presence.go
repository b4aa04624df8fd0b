package bus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
)

const (
	// presenceSubject is where the servers of a fleet say that they are there.
	presenceSubject = "pillion.servers"
	presenceMax     = 64 << 10 // bytes
)

// Announce says something to the servers of a fleet, without acknowledgement.
func (s *Server) Announce(text []byte) error {
	if err := s.conn.Publish(presenceSubject, text); err != nil {
		return fmt.Errorf("announce this server: %w", err)
	}
	return nil
}

// Announced calls heard with each announcement of a server of the fleet, this one included, one at a time.
func (s *Server) Announced(heard func(text []byte, at time.Time)) error {
	_, err := s.conn.Subscribe(presenceSubject, func(m *nats.Msg) {
		if len(m.Data) <= presenceMax {
			heard(m.Data, time.Now())
		}
	})
	if err == nil {
		err = s.conn.FlushTimeout(closeTime)
	}
	if err != nil {
		return fmt.Errorf("hear the servers: %w", err)
	}
	return nil
}

// presentSubject is where the server of a fleet with that name answers whether it is connected.
func presentSubject(name string) string { return "pillion.server." + name + ".present" }

// ServePresence lets Present find this server by a name, until it is closed.
func (s *Server) ServePresence(name string) error {
	_, err := s.conn.Subscribe(presentSubject(name), func(m *nats.Msg) {
		if err := m.Respond(nil); err != nil {
			s.log.Debug("answer whether this server is connected", "error", err)
		}
	})
	if err == nil {
		err = s.conn.FlushTimeout(closeTime)
	}
	if err != nil {
		return fmt.Errorf("answer whether this server is connected: %w", err)
	}
	return nil
}

// Present asks whether the server of that name is connected. It is not if no node knows a
// subscription of it; an error says that nothing is known.
func (s *Server) Present(ctx context.Context, name string) (bool, error) {
	_, err := s.conn.RequestWithContext(ctx, presentSubject(name), nil)
	if errors.Is(err, nats.ErrNoResponders) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("ask whether server %s is connected: %w", name, err)
	}
	return true, nil
}
