package bus

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

const (
	// watchBeat is the interval of signs of life while a watched bucket does not change. After
	// two missed ones the watch moves to another node.
	watchBeat = time.Second
	// expiryChecks is how often within the TTL a watch looks for expired keys, of which NATS
	// does not inform.
	expiryChecks = 10
)

// watch is one Watch.
type watch struct {
	kv      *KV
	prefix  string
	changed func(Entry)
	current func()
	known   map[string]seen
	// pending are known keys that the present subscription has not reported; nil once it has
	// reported all keys that there are.
	pending map[string]bool
}

// seen is a key that was reported as present.
type seen struct {
	revision uint64
	at       time.Time
}

// Watch calls changed for each key that begins with the prefix, then current once, then
// changed for each change, in order, from one goroutine. It returns when the context ends, with
// its error. It survives the loss of the connection and of nodes: changes in between that
// were overwritten are not reported. An expired key is reported as deleted about a tenth of the
// TTL later. It may run ahead of Get, or lag behind it.
func (k *KV) Watch(ctx context.Context, prefix string, changed func(Entry), current func()) error {
	w := &watch{kv: k, prefix: prefix, changed: changed, current: current, known: map[string]seen{}}
	for attempt := 1; ctx.Err() == nil; attempt++ {
		if w.session(ctx) {
			attempt = 0
			continue
		}
		select {
		case <-ctx.Done():
		case <-time.After(min(backOff(attempt), time.Second)):
		}
	}
	return fmt.Errorf("watch keys %q: %w", prefix, ctx.Err())
}

// session follows the bucket until the subscription ends; it reports whether there was one.
func (w *watch) session(ctx context.Context) bool {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	js, err := w.kv.conn.JetStream()
	if err != nil {
		return false
	}
	messages, closed := make(chan *nats.Msg), make(chan struct{})
	subject := kvSubject + strings.TrimPrefix(w.kv.stream, kvStreamName) + "."
	filter := subject + ">"
	if strings.HasSuffix(w.prefix, ".") {
		filter = subject + w.prefix + ">"
	}
	subscription, err := js.Subscribe(filter, func(m *nats.Msg) {
		select {
		case messages <- m:
		case <-ctx.Done():
		}
	}, nats.BindStream(w.kv.stream), nats.OrderedConsumer(), nats.DeliverLastPerSubject(), nats.IdleHeartbeat(watchBeat))
	if err != nil {
		return false
	}
	subscription.SetClosedHandler(func(string) { close(closed) })
	defer func() { go func() { _ = subscription.Unsubscribe() }() }() // it waits for the node, which may be gone
	w.pending = map[string]bool{}
	for key := range w.known {
		w.pending[key] = true
	}
	if waiting, err := subscription.InitialConsumerPending(); err != nil {
		return false
	} else if waiting == 0 {
		w.complete()
	}
	checks := time.NewTicker(max(w.kv.ttl/expiryChecks, 10*time.Millisecond))
	defer checks.Stop()
	if w.kv.ttl == 0 {
		checks.Stop()
	}
	for {
		select {
		case m := <-messages:
			w.take(m, subject)
		case <-checks.C:
			w.expire(ctx)
		case <-closed:
			return true
		case <-ctx.Done():
			return true
		}
	}
}

func (w *watch) take(m *nats.Msg, subject string) {
	meta, err := m.Metadata()
	if err != nil {
		return
	}
	key := strings.TrimPrefix(m.Subject, subject)
	if strings.HasPrefix(key, w.prefix) {
		deleted := m.Header.Get("KV-Operation") != "" // only deletions have it
		w.report(Entry{Key: key, Value: m.Data, Revision: meta.Sequence.Stream, Deleted: deleted})
	}
	if meta.NumPending == 0 {
		w.complete()
	}
}

// report calls changed unless the entry was reported before.
func (w *watch) report(e Entry) {
	delete(w.pending, e.Key)
	old, known := w.known[e.Key]
	if known && e.Revision < old.revision {
		return
	}
	if e.Deleted {
		delete(w.known, e.Key)
		e.Value = nil
	} else {
		w.known[e.Key] = seen{e.Revision, time.Now()}
	}
	if e.Deleted && known || !e.Deleted && (!known || e.Revision != old.revision) {
		w.changed(e)
	}
}

// complete is called when all keys that there are have been reported.
func (w *watch) complete() {
	for key := range w.pending { // deleted while there was no subscription
		w.report(Entry{Key: key, Revision: w.known[key].revision, Deleted: true})
	}
	w.pending = nil
	if w.current != nil {
		w.current()
		w.current = nil
	}
}

// expire asks for keys that should have expired.
func (w *watch) expire(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, watchBeat)
	defer cancel()
	for key, s := range w.known {
		if time.Since(s.at) < w.kv.ttl {
			continue
		}
		e, err := w.kv.Get(ctx, key)
		switch {
		case errors.Is(err, ErrNoKey):
			w.report(Entry{Key: key, Revision: s.revision, Deleted: true})
		case err != nil:
			return // the cluster is unreachable: the next check asks again
		case e.Revision > s.revision:
			w.report(e)
		default: // the clocks of this host and of the node differ
			w.known[key] = seen{s.revision, time.Now().Add(-w.kv.ttl)}
		}
	}
}
