package bus

import (
	"maps"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// rates are token buckets, one for each originator.
type rates struct {
	perSecond float64
	burst     int

	mu       sync.Mutex
	limiters map[string]*rate.Limiter
	swept    time.Time
}

func newRates(perSecond float64, burst int) *rates {
	return &rates{perSecond: perSecond, burst: burst, limiters: map[string]*rate.Limiter{}}
}

// take takes tokens and reports whether there were enough. An originator whose bucket is full again needs no memory.
func (r *rates) take(who string, tokens int, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if full := float64(r.burst) / r.perSecond; now.Sub(r.swept).Seconds() > full+1 {
		r.swept = now
		maps.DeleteFunc(r.limiters, func(_ string, l *rate.Limiter) bool { return l.TokensAt(now) >= float64(r.burst) })
	}
	if r.limiters[who] == nil {
		r.limiters[who] = rate.NewLimiter(rate.Limit(r.perSecond), r.burst)
	}
	return r.limiters[who].AllowN(now, tokens)
}
