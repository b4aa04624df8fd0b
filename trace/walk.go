package trace

import (
	"net/netip"
	"time"
)

const (
	// pace is the minimum interval between probes.
	pace = 5 * time.Millisecond
	// repeat is the minimum interval between probes of the same hop: losses are often
	// bursty.
	repeat = 50 * time.Millisecond
)

// probe is one packet; its index in walk.probes gives its hop and attempt.
type probe struct {
	sent time.Time // zero: not sent yet
	rtt  time.Duration
	from netip.Addr // invalid: no reply yet
}

// walk is the state of a trace: which probes to send next, and the replies. It uses no
// sockets.
type walk struct {
	Options
	probes []probe // Attempts for each TTL from 1
	last   time.Time
	// replied is the highest TTL of any reply.
	replied int
	// reached is the lowest TTL at which the destination replied, refused the lowest TTL at which a router reported
	// it unreachable; 0: none.
	reached, refused int
	slowest          time.Duration
}

func (w *walk) ttl(number int) int { return number/w.Attempts + 1 }

func (w *walk) of(ttl int) []probe { return w.probes[(ttl-1)*w.Attempts : ttl*w.Attempts] }

// end is the last hop, if known; 0: not yet.
func (w *walk) end() int {
	if w.reached > 0 {
		return w.reached
	}
	return w.refused
}

// limit is the last hop that is probed.
func (w *walk) limit() int {
	if end := w.end(); end > 0 {
		return end
	}
	return min(w.replied+w.Gap, w.MaxHops)
}

// wait is the timeout of a reply.
func (w *walk) wait() time.Duration {
	if w.slowest == 0 {
		return w.Wait
	}
	return min(max(4*w.slowest, w.Wait/2), w.Wait)
}

// next returns the probe to send, and when; or -1 and when the trace ends unless more
// replies arrive.
func (w *walk) next() (number int, at time.Time) {
	number = -1
	var end time.Time
	for ttl := 1; ttl <= w.limit(); ttl++ {
		tried := 0
		for _, p := range w.of(ttl) {
			if p.sent.IsZero() {
				break
			}
			tried++
			if expiry := p.sent.Add(w.wait()); !p.from.IsValid() && expiry.After(end) {
				end = expiry
			}
		}
		if tried == w.Attempts {
			continue
		}
		if due := w.due(ttl, tried); number < 0 || due.Before(at) {
			number, at = (ttl-1)*w.Attempts+tried, due
		}
	}
	if number < 0 {
		return number, end
	}
	if paced := w.last.Add(pace); at.Before(paced) {
		at = paced
	}
	return number, at
}

// due is when the attempt may be sent. A hop that may be beyond the destination is not
// retried before its first probe has timed out: redundant probes would use up the
// destination's ICMP rate limit.
func (w *walk) due(ttl, attempt int) time.Time {
	if attempt == 0 {
		return time.Time{}
	}
	probes := w.of(ttl)
	due := probes[attempt-1].sent.Add(repeat)
	if ttl > w.replied && w.end() == 0 {
		if expiry := probes[0].sent.Add(w.wait()); expiry.After(due) {
			return expiry
		}
	}
	return due
}

func (w *walk) sent(number int, at time.Time) { w.probes[number].sent, w.last = at, at }

// take records a reply; only the first to each probe counts.
func (w *walk) take(a answer) {
	if a.number >= len(w.probes) {
		return
	}
	p := &w.probes[a.number]
	if p.sent.IsZero() || p.from.IsValid() {
		return
	}
	ttl := w.ttl(a.number)
	p.from, p.rtt = a.from, roundTrip(p.sent, a)
	w.replied, w.slowest = max(w.replied, ttl), max(w.slowest, p.rtt)
	switch {
	case a.kind == reachedEnd && (w.reached == 0 || ttl < w.reached):
		w.reached = ttl
	case a.kind == refusedOn && (w.refused == 0 || ttl < w.refused):
		w.refused = ttl
	}
}

// roundTrip uses the kernel's timestamp unless the clock was set meanwhile: the
// monotonic clock is an upper bound.
func roundTrip(sent time.Time, a answer) time.Duration {
	elapsed := a.read.Sub(sent)
	if a.stamp.IsZero() {
		return elapsed
	}
	if rtt := a.stamp.Sub(sent.Round(0)); rtt > 0 && rtt < elapsed {
		return rtt
	}
	return elapsed
}

func (w *walk) hops() []Hop {
	hops := make([]Hop, w.limit())
	for i := range hops {
		hops[i] = w.hop(i + 1)
	}
	return hops
}

func (w *walk) hop(ttl int) Hop {
	h := Hop{TTL: ttl}
	counts := map[netip.Addr]int{}
	for _, p := range w.of(ttl) {
		if !p.sent.IsZero() {
			h.Sent++
		}
		if !p.from.IsValid() {
			continue
		}
		h.Answers++
		counts[p.from]++
		if counts[p.from] > counts[h.Address] {
			h.Address = p.from
		}
	}
	seen := map[netip.Addr]bool{h.Address: true}
	for _, p := range w.of(ttl) {
		if !p.from.IsValid() {
			continue
		}
		if p.from == h.Address && (h.RTT == 0 || p.rtt < h.RTT) {
			h.RTT = p.rtt
		}
		if !seen[p.from] {
			seen[p.from] = true
			h.Others = append(h.Others, p.from)
		}
	}
	return h
}
