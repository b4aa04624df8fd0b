package service

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"pillion.dev/agent/loader"
)

// TestStatusWhileTheLoaderIsBusy: a report has the last status while a task is being started,
// and an error once the loader has failed to answer.
func TestStatusWhileTheLoaderIsBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		revision, delay, failure := uint64(1), time.Duration(0), error(nil)
		s := &statuses{ask: func() (loader.Status, error) {
			status, err := loader.Status{Revision: revision}, failure
			time.Sleep(delay)
			return status, err
		}}
		expect := func(want uint64, failed bool, within time.Duration) {
			t.Helper()
			begun := time.Now()
			status, err := s.get(statusWait)
			if status.Revision != want || (err != nil) != failed || time.Since(begun) > within {
				t.Errorf("revision %d, %v after %v; want %d, an error %v, within %v", status.Revision, err, time.Since(begun), want, failed, within)
			}
		}
		expect(1, false, 0)
		revision, delay = 2, 9*time.Second
		for range 3 {
			expect(1, false, statusWait)
		}
		time.Sleep(delay)
		delay = 0
		expect(2, false, 0)
		delay, failure = 10*time.Second, errors.New("no answer")
		expect(2, false, statusWait)
		time.Sleep(delay)
		expect(2, true, delay)
		delay, failure = 0, nil
		expect(2, false, 0)
	})
}
