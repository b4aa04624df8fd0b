package bus

import (
	"sync"
	"time"
)

// rates are token buckets, one for each originator.
type rates struct {
	perSecond, burst float64

	mu      sync.Mutex
	buckets map[string]*bucket
	swept   time.Time
}

type bucket struct {
	tokens float64
	at     time.Time
}

func newRates(perSecond, burst float64) *rates {
	return &rates{perSecond: perSecond, burst: burst, buckets: map[string]*bucket{}}
}

// take takes tokens and reports whether there were enough. The tokens of an originator that has
// been quiet are full again and need no memory.
func (r *rates) take(who string, tokens float64, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	full := time.Duration(r.burst / r.perSecond * float64(time.Second))
	if now.Sub(r.swept) > full+time.Second {
		r.swept = now
		for name, b := range r.buckets {
			if now.Sub(b.at) > full {
				delete(r.buckets, name)
			}
		}
	}
	b := r.buckets[who]
	if b == nil {
		b = &bucket{tokens: r.burst, at: now}
		r.buckets[who] = b
	}
	b.tokens = min(r.burst, b.tokens+now.Sub(b.at).Seconds()*r.perSecond)
	b.at = now
	if b.tokens < tokens {
		return false
	}
	b.tokens -= tokens
	return true
}
