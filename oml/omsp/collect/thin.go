package collect

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"pillion.dev/measure/application"
	"pillion.dev/oml/omsp"
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
		kind = application.FeedbackThin
	}
	amount := int64(n)
	switch kind {
	case application.FeedbackSlow:
		if c.full == 0 || n == 1 {
			c.full = c.rate()
		}
		if amount = 0; n > 1 {
			amount = max(c.full/int64(n), slowLeast)
		}
	case application.FeedbackAggregate:
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
