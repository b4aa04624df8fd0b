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
	segments  uint64 // Connections.Cleared
	until     time.Duration
	by, shown string
}

// FollowConnections sets the callbacks of connections again that a program of other software has cleared; now is of
// the monotonic clock.
func (s *Source) FollowConnections(now time.Duration) error {
	t, err := s.Tally()
	if err != nil || t.Connections.Cleared == s.cleared.segments {
		return err
	}
	by := cmp.Or(strings.Join(hook.SocketPrograms("source_connection"), " or "), "a sockops program of other software")
	s.cleared.segments, s.cleared.until, s.cleared.by = t.Connections.Cleared, now+clearedFor, by
	if err := s.takeUp(); err != nil {
		return fmt.Errorf("follow connections: %w", err)
	}
	return nil
}

// Hidden is hook.Attachment.Hidden at egress, or says which programs clear the callbacks of connections.
func (s *Source) Hidden(now time.Duration) (text string, changed bool, err error) {
	text, _, err = s.egress.Hidden(now, func() (uint64, error) { t, err := s.Tally(); return t.Seen, err })
	if c := &s.cleared; err == nil && text == "" && now < c.until {
		text = c.by + ": the callbacks of TCP connections are cleared, and set again every second where that is possible (Linux 6.12)"
	}
	changed, s.cleared.shown = text != s.cleared.shown, text
	return text, changed, err
}
