package runner

import (
	"log/slog"
	"time"

	"pillion.dev/probe/hook"
)

// sightEvery is how often it is checked whether packets reach a program.
const sightEvery = 900 * time.Millisecond

// sight is whether packets reach the program of a device.
type sight struct {
	hook.Sight
	checked time.Duration // by the monotonic clock
	text    string        // what hides it; empty: nothing
}

// look checks that, unless it has just been done, and reports whether the text has changed.
func (s *sight) look(now time.Duration, log *slog.Logger, probe interface {
	Passed() (uint64, error)
	HiddenText() (string, error)
}, seen func() (uint64, error)) (changed bool) {
	if s.checked != 0 && now-s.checked < sightEvery {
		return false
	}
	s.checked = now
	before := s.text
	passed, err := probe.Passed()
	var count uint64
	if err == nil {
		count, err = seen()
	}
	if err == nil {
		if s.text = ""; s.Hidden(passed, count) {
			s.text, err = probe.HiddenText()
		}
	}
	if err != nil {
		log.Debug("check whether packets reach the program", "error", err)
	}
	return s.text != before
}
