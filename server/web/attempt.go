package web

import (
	"net/netip"
	"sync"
	"time"
)

const (
	// attemptBurst failures are allowed, then one per attemptEvery.
	attemptBurst = 10
	attemptEvery = 6 * time.Second
	// attemptSources limits memory; beyond it, new addresses share one bucket.
	attemptSources = 10_000
)

// attempts counts failures by source address, IPv6 by /64, in leaky buckets.
type attempts struct {
	mutex   sync.Mutex
	now     func() time.Time
	buckets map[netip.Addr]bucket
}

type bucket struct {
	failures float64
	at       time.Time
}

func newAttempts(now func() time.Time) *attempts {
	return &attempts{now: now, buckets: map[netip.Addr]bucket{}}
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

func (a *attempts) find(from netip.Addr) (netip.Addr, float64) {
	if from.Is6() {
		network, _ := from.WithZone("").Prefix(64)
		from = network.Addr()
	}
	if _, known := a.buckets[from]; !known && len(a.buckets) >= attemptSources {
		for key := range a.buckets {
			if a.left(a.buckets[key]) == 0 {
				delete(a.buckets, key)
			}
		}
		if len(a.buckets) >= attemptSources {
			from = netip.Addr{}
		}
	}
	return from, a.left(a.buckets[from])
}

// left is the level of a bucket now.
func (a *attempts) left(one bucket) float64 {
	return max(0, one.failures-a.now().Sub(one.at).Seconds()/attemptEvery.Seconds())
}
