package web

import (
	"net/netip"
	"sync"
	"time"

	"pillion.dev/internal/quota"
)

const (
	// attemptBurst failures are allowed, then one per attemptEvery.
	attemptBurst = 10
	attemptEvery = 6 * time.Second
	// attemptSources limits memory; beyond it, new addresses share one bucket.
	attemptSources = 10_000
)

// attempts counts failures by source address in leaky buckets.
type attempts struct {
	mutex   sync.Mutex
	now     func() time.Time
	buckets map[string]bucket // by quota.Source
}

type bucket struct {
	failures float64
	at       time.Time
}

func newAttempts(now func() time.Time) *attempts {
	return &attempts{now: now, buckets: map[string]bucket{}}
}

// blocked reports whether the address has reached the limit.
func (a *attempts) blocked(from netip.Addr) bool {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	_, failures := a.find(from)
	return failures > attemptBurst-1
}

// failed counts a failure.
func (a *attempts) failed(from netip.Addr) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	key, failures := a.find(from)
	a.buckets[key] = bucket{failures + 1, a.now()}
}

func (a *attempts) find(address netip.Addr) (from string, failures float64) {
	from = quota.Source(address)
	if _, known := a.buckets[from]; !known && len(a.buckets) >= attemptSources {
		for key := range a.buckets {
			if a.left(a.buckets[key]) == 0 {
				delete(a.buckets, key)
			}
		}
		if len(a.buckets) >= attemptSources {
			from = ""
		}
	}
	return from, a.left(a.buckets[from])
}

// left is the level of a bucket now.
func (a *attempts) left(one bucket) float64 {
	return max(0, one.failures-a.now().Sub(one.at).Seconds()/attemptEvery.Seconds())
}
