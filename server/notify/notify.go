// Package notify tells receivers which alarms are active and which have ended: by webhooks in Alertmanager's format, and
// by e-mail. Alarms with equal values of some labels are one group, and have one notification.
//
// What is to be sent follows from the alarms and from what was sent last, so that there is no queue that could overflow:
// a receiver that is away gets, when it is back, what is true then. One notification at a time is on its way to each
// receiver. In a fleet the leading server notifies; what was sent is part of the state that all share.
package notify

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"pillion.dev/server/alarm"
	"pillion.dev/server/outbound"
	"pillion.dev/server/store"
)

// Alarms are the alarms of a server.
type Alarms interface {
	Alarms() []alarm.Alarm
	// Save writes what changed.
	Save(ctx context.Context) error
	// Changed receives after they changed.
	Changed() <-chan struct{}
	// Notified returns what was kept of groups; KeepNotified keeps it.
	Notified() map[string]json.RawMessage
	KeepNotified(group string, record json.RawMessage)
}

// Options of a Notifier.
type Options struct {
	// Receivers are complete.
	Receivers []Receiver
	Alarms    Alarms
	// URL of the page, for links; empty: there are none.
	URL string
	// Addresses restrict where notifications go.
	Addresses outbound.Addresses
	Log       *slog.Logger
	// Now is the time; default time.Now.
	Now func() time.Time
}

const (
	// tickEvery is how often groups are looked at if no alarm changes.
	tickEvery = time.Second
	// sendTime bounds an attempt, retryLeast and retryMost the wait after a failed one.
	sendTime   = 10 * time.Second
	retryLeast = time.Second
	retryMost  = time.Minute
	// alertsMost are listed in a notification, the others are counted.
	alertsMost = 500
)

// errPermanent is a notification that the receiver refused: it is not sent again.
var errPermanent = errors.New("refused")

// Notifier notifies. It is safe for concurrent use.
type Notifier struct {
	Options

	mu    sync.Mutex
	stats map[string]*Stats // by receiver
	out   []*outlet
}

// Stats of a receiver.
type Stats struct {
	Receiver string
	// Sent notifications were accepted, Failed attempts are repeated, Refused notifications are not.
	Sent, Failed, Refused uint64
	// Waiting groups have something to be sent.
	Waiting int
}

// outlet is a receiver and what is known of its groups.
type outlet struct {
	Receiver
	send   func(context.Context, *Message, outbound.Addresses) error
	groups map[string]*group
	busy   bool
}

// group is what is known of a group of alarms.
type group struct {
	key    string
	labels map[string]string
	record record
	// changed is when what is to be sent began to differ from what was sent; zero: it does not.
	changed  time.Time
	failures int
	retryAt  time.Time
	sending  bool
}

// record is what was sent last.
type record struct {
	At time.Time `json:"at"`
	// Firing are the alarms that were active, sorted.
	Firing []string `json:"firing"`
}

// New returns a Notifier.
func New(o Options) *Notifier {
	if o.Now == nil {
		o.Now = time.Now
	}
	n := &Notifier{Options: o, stats: map[string]*Stats{}}
	for _, r := range o.Receivers {
		out := &outlet{Receiver: r, groups: map[string]*group{}}
		if r.Webhook.URL != "" {
			out.send = r.Webhook.send
		} else {
			out.send = r.Email.send
		}
		n.out = append(n.out, out)
		n.stats[r.Name] = &Stats{Receiver: r.Name}
	}
	return n
}

// Stats returns the statistics of all receivers, in their order.
func (n *Notifier) Stats() (all []Stats) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, r := range n.Receivers {
		all = append(all, *n.stats[r.Name])
	}
	return all
}

// Run saves alarms as they change, and then notifies, until the context ends or another server has written them: then
// they are to be loaded again. Only one Run at a time.
func (n *Notifier) Run(ctx context.Context) error {
	n.load()
	var sending sync.WaitGroup
	defer sending.Wait()
	done := make(chan func())
	for {
		if err := n.Alarms.Save(ctx); errors.Is(err, store.ErrChanged) {
			return err
		} else if err != nil && ctx.Err() == nil {
			n.Log.Error("alarms are kept in memory only", "error", err)
		}
		next := n.plan(func(out *outlet, g *group, m *Message) {
			sending.Go(func() {
				sent := n.attempt(ctx, out, m)
				select {
				case done <- func() { n.settle(out, g, m, sent) }:
				case <-ctx.Done():
				}
			})
		})
		timer := time.NewTimer(min(max(next, 0), tickEvery))
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case settle := <-done:
			settle()
		case <-n.Alarms.Changed():
		case <-timer.C:
		}
		timer.Stop()
	}
}

// load reads what was sent.
func (n *Notifier) load() {
	kept := n.Alarms.Notified()
	for _, out := range n.out {
		out.groups, out.busy = map[string]*group{}, false
	}
	for name, text := range kept {
		receiver, key, _ := strings.Cut(name, "|")
		i := slices.IndexFunc(n.out, func(o *outlet) bool { return o.Name == receiver })
		var r record
		if i < 0 || json.Unmarshal(text, &r) != nil {
			n.Alarms.KeepNotified(name, nil)
			continue
		}
		n.out[i].groups[key] = &group{key: key, record: r}
	}
}

// plan starts what is due, and returns when something will be.
func (n *Notifier) plan(start func(*outlet, *group, *Message)) (next time.Duration) {
	now, alarms := n.Now(), n.Alarms.Alarms()
	next = tickEvery
	for _, out := range n.out {
		waiting := 0
		for _, g := range out.sort(alarms) {
			due, has := g.due(&out.Receiver, now)
			if !has {
				continue
			}
			waiting++
			switch wait := due.Sub(now); {
			case wait > 0:
				next = min(next, wait)
			case !out.busy:
				out.busy, g.sending = true, true
				start(out, g.group, n.message(out, g))
			}
		}
		n.mu.Lock()
		n.stats[out.Name].Waiting = waiting
		n.mu.Unlock()
	}
	return next
}

// members are the alarms of a group.
type members struct {
	*group
	firing, ended []alarm.Alarm
}

// sort sorts alarms into groups. Silenced ones are in none.
func (o *outlet) sort(alarms []alarm.Alarm) map[string]*members {
	all := map[string]*members{}
	for key, g := range o.groups {
		all[key] = &members{group: g}
	}
	for _, a := range alarms {
		if len(a.SilencedBy) > 0 || !o.matchers.Matches(a.Labels) {
			continue
		}
		labels := map[string]string{}
		for _, name := range o.GroupBy {
			if value, has := a.Labels[name]; has {
				labels[name] = value
			}
		}
		key := groupKey(labels)
		m := all[key]
		if m == nil {
			if !a.Active() {
				continue
			}
			m = &members{group: &group{key: key}}
			o.groups[key], all[key] = m.group, m
		}
		m.labels = labels
		if a.Active() {
			m.firing = append(m.firing, a)
		} else if slices.Contains(m.record.Firing, a.ID) {
			m.ended = append(m.ended, a)
		}
	}
	for key, m := range all {
		if len(m.firing) == 0 && len(m.record.Firing) == 0 && !m.sending {
			delete(o.groups, key)
			delete(all, key)
		}
	}
	return all
}

// groupKey writes labels as Alertmanager does: {alertname="loss"}.
func groupKey(labels map[string]string) string {
	var texts []string
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		texts = append(texts, name+"="+strconv.Quote(labels[name]))
	}
	return "{" + strings.Join(texts, ", ") + "}"
}

// due returns when the group is to be notified, if it is.
func (m *members) due(r *Receiver, now time.Time) (at time.Time, has bool) {
	if m.sending {
		return at, false
	}
	fresh, unacknowledged := false, false
	for _, a := range m.firing {
		fresh = fresh || !slices.Contains(m.record.Firing, a.ID)
		unacknowledged = unacknowledged || a.Acknowledged == nil
	}
	gone := len(m.record.Firing) > 0 && len(m.firing) == 0 || len(m.ended) > 0
	switch {
	case !fresh && !gone:
		m.changed = time.Time{}
		if !unacknowledged {
			return at, false
		}
		at = m.record.At.Add(r.RepeatInterval)
		return latest(at, m.retryAt), !at.After(now)
	case m.changed.IsZero():
		m.changed = now
	}
	if at = m.record.At.Add(r.GroupInterval); len(m.record.Firing) == 0 {
		at = m.changed.Add(r.GroupWait)
	}
	return latest(at, m.retryAt), true
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// attempt sends a message, unless it has nothing to say.
func (n *Notifier) attempt(ctx context.Context, out *outlet, m *Message) error {
	if len(m.Alerts) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, sendTime)
	defer cancel()
	return out.send(ctx, m, n.Addresses)
}

// settle notes the outcome of sending a message.
func (n *Notifier) settle(out *outlet, g *group, m *Message, err error) {
	out.busy, g.sending = false, false
	now := n.Now()
	n.mu.Lock()
	stats := n.stats[out.Name]
	switch {
	case err == nil && len(m.Alerts) > 0:
		stats.Sent++
	case errors.Is(err, errPermanent):
		stats.Refused++
	case err != nil:
		stats.Failed++
	}
	n.mu.Unlock()
	if err != nil {
		n.Log.Warn("cannot notify of alarms", "receiver", out.Name, "group", g.key, "error", err)
		if !errors.Is(err, errPermanent) {
			g.retryAt = now.Add(min(retryLeast<<min(g.failures, 10), retryMost))
			g.failures++
			return
		}
	}
	g.failures, g.retryAt, g.changed = 0, time.Time{}, time.Time{}
	g.record = record{At: now.UTC(), Firing: m.firing}
	name := out.Name + "|" + g.key
	if len(m.firing) == 0 {
		delete(out.groups, g.key)
		n.Alarms.KeepNotified(name, nil)
		return
	}
	if text, err := json.Marshal(g.record); err == nil {
		n.Alarms.KeepNotified(name, text)
	}
}
