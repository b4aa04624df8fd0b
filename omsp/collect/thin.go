package collect

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"pillion.dev/omsp"
)

// Thresholds of the policy by which clients are asked to send less, as shares of the
// queue's capacity.
const (
	thinAbove = 0.5
	thinBelow = 0.25
	thinEvery = 10 * time.Second
	thinMost  = 1024
)

// Feedback is how clients are asked to send less while the queue is long.
type Feedback string

// The kinds. Clients that do not announce the last two with the key pillion-feedback are
// thinned.
const (
	// FeedbackThin requests every N-th sample; the others are lost.
	FeedbackThin Feedback = "thin"
	// FeedbackSlow requests 1/N of the rate at which the client sent before. The rest waits
	// in the client's buffer: nothing is lost until that is full.
	FeedbackSlow Feedback = "slow"
	// FeedbackAggregate requests, in place of samples, their average, minimum and maximum
	// over N times 100 ms, in streams of their own.
	FeedbackAggregate Feedback = "aggregate"
)

const (
	feedbackKey = "pillion-feedback"
	// aggregateEvery is the window for N = 1, of which the least requested is twice;
	// aggregateMost is the longest.
	aggregateEvery = 100 * time.Millisecond
	aggregateMost  = time.Minute
	// slowLeast is the least rate requested, bytes/s.
	slowLeast = 1000
)

// ParseFeedback reads a Feedback; empty is FeedbackThin.
func ParseFeedback(text string) (Feedback, error) {
	switch f := Feedback(text); f {
	case "":
		return FeedbackThin, nil
	case FeedbackThin, FeedbackSlow, FeedbackAggregate:
		return f, nil
	}
	return "", fmt.Errorf("feedback %q: use thin, slow or aggregate", text)
}

// Thinning is the policy that decides to which fraction, 1 of N, clients are asked to
// reduce what they send. While the queue is over half full, N doubles every 10 s; while it is
// under a quarter full, N halves every 10 s down to 1. The zero value asks for all.
type Thinning struct {
	doubled int // how often
	changed time.Time
}

// N is 1 if all samples are requested.
func (t *Thinning) N() int { return 1 << t.doubled }

// Step takes the current fill level of the queue and reports whether N has changed.
func (t *Thinning) Step(now time.Time, share float64) bool {
	step := 0
	switch {
	case share > thinAbove && t.N() < thinMost:
		step = 1
	case share < thinBelow && t.doubled > 0:
		step = -1
	}
	if step == 0 || !t.changed.IsZero() && now.Sub(t.changed) < thinEvery {
		return false
	}
	t.doubled, t.changed = t.doubled+step, now
	return true
}

// audience is the set of connections with a session, which can be asked to send less.
type audience struct {
	mu      sync.Mutex
	thin    int // 0: not requested yet
	members map[*connection]bool
}

// join adds a connection and sends it the current request.
func (a *audience) join(c *connection) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.members[c] = true
	if a.thin > 1 {
		c.ask(a.thin)
	}
}

func (a *audience) leave(c *connection) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.members, c)
}

// ask requests 1 of n, in the way that the collector is set to and the client supports,
// and returns the request. The audience's lock is held.
func (c *connection) ask(n int) (key, value string) {
	kind := c.o.Feedback
	if !slices.Contains(strings.Fields(c.header.Extra[feedbackKey]), string(kind)) {
		kind = FeedbackThin
	}
	amount := int64(n)
	switch kind {
	case FeedbackSlow:
		if c.full == 0 || n == 1 {
			c.full = c.rate()
		}
		if amount = 0; n > 1 {
			amount = max(c.full/int64(n), slowLeast)
		}
	case FeedbackAggregate:
		if amount = 0; n > 1 {
			amount = min(time.Duration(n)*aggregateEvery, aggregateMost).Milliseconds()
		}
	}
	key, value = string(kind), strconv.FormatInt(amount, 10)
	c.answer.line(key + " " + value)
	return key, value
}

// rate is the rate at which bytes were received since the last call, bytes/s.
func (c *connection) rate() int64 {
	now, received := time.Now(), c.received.Load()
	since, before := c.rated, c.counted
	if since.IsZero() {
		since = c.Begun
	}
	c.rated, c.counted = now, received
	return int64(float64(received-before) / max(now.Sub(since).Seconds(), 0.1))
}

// Thin asks all current and future sessions to send 1 of n, and records that in the
// metadata of their domains. Other clients are never asked.
func (c *Collector) Thin(n int) {
	a := c.o.audience
	type request struct {
		Connection
		key, value string
	}
	var asked []request
	a.mu.Lock()
	a.thin = n
	for member := range a.members {
		key, value := member.ask(n)
		asked = append(asked, request{Connection{Source: member.Source, Domain: member.Domain, Sender: member.Sender}, key, value})
	}
	a.mu.Unlock()
	for _, one := range asked {
		if err := c.note(one.Connection, one.key, one.value); err != nil {
			c.o.Log.Warn("record sampling request", "domain", one.Domain, "sender", one.Sender, "error", err)
		}
	}
}

// note adds a tuple of the collector to the metadata of a domain.
func (c *Collector) note(about Connection, key, value string) error {
	backend := c.backend(about.Source)
	start, err := backend.Start(about.Domain, time.Now().Unix())
	if err != nil {
		return err
	}
	t, err := backend.Table(about.Domain, omsp.Metadata)
	if err != nil {
		return err
	}
	now := time.Now()
	behind := float64(now.UnixNano()-start*1e9) / 1e9
	r := rowsOf(t, &omsp.Metadata)
	defer r.builder.Release()
	tuple := omsp.Tuple{Schema: &omsp.Metadata, Values: make([]omsp.Value, 3)}
	for i, text := range []string{".", key, value} {
		tuple.Values[i].SetString(text)
	}
	r.add(&tuple, stamp{at: arrow.Timestamp(now.UnixNano()), sender: about.Sender, clientTime: behind, serverTime: behind})
	record := r.cut()
	defer record.Release()
	backend.Store(r.Schema, record, func(error) {})
	return nil
}
