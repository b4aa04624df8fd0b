package source

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"pillion.dev/probe/hook"
)

// clearedFor is how long a program of other software counts as one that clears callbacks after it did.
const clearedFor = 10 * time.Second

// cleared is what is known of callbacks that a program of other software clears.
type cleared struct {
	taken, said uint64 // of Connections.Cleared
	until       time.Duration
	text        string
	shown       string // by Hidden
}

// FollowConnections sets the callbacks of connections again that a program of other software has cleared.
func (s *Source) FollowConnections() error {
	t, err := s.Tally()
	if err != nil || t.Connections.Cleared == s.cleared.taken {
		return err
	}
	s.cleared.taken = t.Connections.Cleared
	if err := s.takeUp(); err != nil {
		return fmt.Errorf("follow connections: %w", err)
	}
	return nil
}

// clearedText says which programs clear callbacks; empty: none.
func (s *Source) clearedText(now time.Duration) string {
	t, err := s.Tally()
	if c := &s.cleared; err == nil && t.Connections.Cleared != c.said {
		others := hook.SocketPrograms("source_connection")
		if len(others) == 0 {
			others = []string{"a sockops program of other software"}
		}
		c.said, c.until = t.Connections.Cleared, now+clearedFor
		c.text = fmt.Sprintf("%s: the callbacks of TCP connections are cleared, and set again every second where that is possible (Linux 6.12)", strings.Join(others, " or "))
	}
	if now >= s.cleared.until {
		return ""
	}
	return s.cleared.text
}

// Hidden is hook.Attachment.Hidden at egress, or says which programs clear the callbacks of connections.
func (s *Source) Hidden(now time.Duration) (text string, changed bool, err error) {
	text, _, err = s.egress.Hidden(now, func() (uint64, error) { t, err := s.Tally(); return t.Seen, err })
	if err != nil {
		return "", false, err
	}
	text = cmp.Or(text, s.clearedText(now))
	changed, s.cleared.shown = text != s.cleared.shown, text
	return text, changed, nil
}
