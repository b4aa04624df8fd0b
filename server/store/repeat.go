package store

import (
	"errors"
	"math/rand/v2"
	"time"
)

const (
	attemptsMax = 10
	// attemptPause limits the pause before the second attempt; it grows by as much with each attempt.
	attemptPause = 5 * time.Millisecond
)

// Repeat makes a change again as long as another server was faster to write what it concerns, each time after that was
// loaded again. The pauses in between are random, so that no server is always the slower one.
func Repeat(change, load func() error) error {
	for attempt := 1; ; attempt++ {
		err := change()
		if !errors.Is(err, ErrChanged) || attempt == attemptsMax {
			return err
		}
		time.Sleep(rand.N(time.Duration(attempt) * attemptPause))
		if err := load(); err != nil {
			return err
		}
	}
}
