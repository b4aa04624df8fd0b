package bus

import (
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

// Announced calls heard with what the servers of a fleet announce, this one included, one at a time.
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
