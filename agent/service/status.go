package service

import (
	"sync"
	"time"

	"pillion.dev/agent/loader"
)

// statusWait is how long a report waits for the loader. While that starts a task it does not
// answer, which takes seconds on a busy host; the agent reports what it knew before, so that it
// does not count as lost meanwhile.
const statusWait = reportEvery / 2

// statuses asks the loader for its status.
type statuses struct {
	ask func() (loader.Status, error)

	mutex sync.Mutex
	// under is closed when the question under way is answered; nil without one.
	under chan struct{}
	last  loader.Status
	err   error // of the last question; last is old then
	known bool
}

// get returns the status, or the last one if the loader does not answer in time. A loader that
// does not answer at all gives its error, and no older status hides that.
func (s *statuses) get(wait time.Duration) (loader.Status, error) {
	s.mutex.Lock()
	under, fallback := s.under, s.known && s.err == nil
	if under == nil {
		under = make(chan struct{})
		s.under = under
		go s.update(under)
	}
	s.mutex.Unlock()
	if fallback {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-under:
		case <-timer.C:
		}
	} else {
		<-under
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.last, s.err
}

func (s *statuses) update(done chan struct{}) {
	status, err := s.ask()
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.err = err; err == nil {
		s.last, s.known = status, true
	}
	s.under = nil
	close(done)
}
