package service

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pillion.dev/agent/loader"
)

// TestStatusWhileTheLoaderIsBusy: a report has the last status while a task is being started,
// and an error once the loader has failed to answer.
func TestStatusWhileTheLoaderIsBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type answer struct {
			revision uint64
			after    time.Duration
			failure  error
		}
		var next atomic.Pointer[answer]
		s := &statuses{ask: func() (loader.Status, error) {
			a := next.Load()
			time.Sleep(a.after)
			return loader.Status{Revision: a.revision}, a.failure
		}}
		expect := func(want uint64, failed bool, within time.Duration) {
			t.Helper()
			begun := time.Now()
			status, err := s.get(statusWait)
			if status.Revision != want || (err != nil) != failed || time.Since(begun) > within {
				t.Errorf("revision %d, %v after %v; want %d, an error %v, within %v", status.Revision, err, time.Since(begun), want, failed, within)
			}
		}
		next.Store(&answer{revision: 1})
		expect(1, false, 0)
		next.Store(&answer{revision: 2, after: 9 * time.Second})
		for range 3 {
			expect(1, false, statusWait)
		}
		time.Sleep(9 * time.Second)
		next.Store(&answer{revision: 2})
		expect(2, false, 0)
		next.Store(&answer{after: 10 * time.Second, failure: errors.New("no answer")})
		expect(2, false, statusWait)
		time.Sleep(10 * time.Second)
		expect(2, true, 10*time.Second)
		next.Store(&answer{revision: 2})
		expect(2, false, 0)
	})
}
