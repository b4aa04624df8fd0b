package web

import (
	"net/netip"
	"sync"
	"time"
)

const (
	// attemptBurst failures are forgiven, then one each attemptEvery.
	attemptBurst = 10
	attemptEvery = 6 * time.Second
	// attemptSources bounds the memory; beyond it, unknown addresses share one
	// account.
	attemptSources = 10_000
)

// attempts counts failures by the address that they came from, an IPv6
// network of 64 bits counting as one. Each account is a leaking bucket.
type attempts struct {
	mutex    sync.Mutex
	now      func() time.Time
	accounts map[netip.Addr]account
}

type account struct {
	failures float64
	at       time.Time
}

func newAttempts(now func() time.Time) *attempts {
	return &attempts{now: now, accounts: map[netip.Addr]account{}}
}

// blocked reports whether the address has failed too often to be heard now.
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
	a.accounts[key] = account{failures + 1, a.now()}
}

func (a *attempts) find(from netip.Addr) (netip.Addr, float64) {
	if from.Is6() {
		network, _ := from.WithZone("").Prefix(64)
		from = network.Addr()
	}
	if _, known := a.accounts[from]; !known && len(a.accounts) >= attemptSources {
		for key := range a.accounts {
			if a.left(a.accounts[key]) == 0 {
				delete(a.accounts, key)
			}
		}
		if len(a.accounts) >= attemptSources {
			from = netip.Addr{}
		}
	}
	return from, a.left(a.accounts[from])
}

// left are the failures that time has not forgiven yet.
func (a *attempts) left(one account) float64 {
	return max(0, one.failures-a.now().Sub(one.at).Seconds()/attemptEvery.Seconds())
}
