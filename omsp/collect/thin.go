package collect

import (
	"fmt"
	"strconv"
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

// Thinning is the policy that decides which fraction of samples, 1 of N, clients are
// asked to send. While the queue is over half full, N doubles every 10 s; while it is
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

func (c *connection) ask(n int) { c.answer.line(fmt.Sprintf("thin %d", n)) }

// Thin asks all current and future sessions for every n-th sample only, and records that
// in the metadata of their domains. Other clients are never asked.
func (c *Collector) Thin(n int) {
	a := c.o.audience
	var asked []Connection
	a.mu.Lock()
	a.thin = n
	for member := range a.members {
		member.ask(n)
		asked = append(asked, Connection{Source: member.Source, Domain: member.Domain, Sender: member.Sender})
	}
	a.mu.Unlock()
	for _, one := range asked {
		if err := c.note(one, "thin", strconv.Itoa(n)); err != nil {
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
