package bus

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

const (
	firstWait   = 100 * time.Millisecond
	longestWait = 5 * time.Second
	dialTime    = 5 * time.Second
	helloTime   = 3 * time.Second
)

// backOff returns the delay before an attempt: exponential up to longestWait, with
// jitter of one half.
func backOff(attempt int) time.Duration {
	wait := longestWait
	if attempt < 7 {
		wait = min(longestWait, firstWait<<max(attempt-1, 0))
	}
	return wait/2 + rand.N(wait/2)
}

// dialer fails the attempts for which nats.Connect waits, one for each URL; all others are made
// in the background.
type dialer struct {
	ctx  context.Context
	left int // attempts to fail
}

var errLater = errors.New("dial in the background")

// Dial is called by NATS, not concurrently.
func (d *dialer) Dial(network, address string) (net.Conn, error) {
	if d.left > 0 {
		d.left--
		return nil, errLater
	}
	plain := net.Dialer{Timeout: dialTime}
	return plain.DialContext(d.ctx, network, address)
}

// dial creates a NATS connection that connects in the background, with all
// subscriptions.
func (a *Agent) dial() error {
	made := make(chan struct{})
	defer close(made)
	var conn *nats.Conn
	pause := func(attempt int) time.Duration {
		<-made
		if conn == nil {
			return 0
		}
		a.down(conn.LastError())
		return a.pause(attempt)
	}
	order := func(o *nats.Options) error {
		o.NoRandomize = a.options.InOrder
		return nil
	}
	conn, err := nats.Connect(a.options.URL, order,
		nats.Name(a.instance), nats.Secure(a.options.TLS), nats.CustomInboxPrefix(inboxPrefix(a.options.Name)),
		nats.SetCustomDialer(&dialer{ctx: a.ctx, left: 1 + strings.Count(a.options.URL, ",")}), nats.SkipHostLookup(), nats.IgnoreDiscoveredServers(),
		nats.Timeout(dialTime), nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1), nats.IgnoreAuthErrorAbort(),
		nats.CustomReconnectDelay(pause), nats.ReconnectBufSize(-1),
		nats.PingInterval(pingEvery), nats.MaxPingsOutstanding(pingsOut), nats.PermissionErrOnSubscribe(true),
		nats.ConnectHandler(a.up), nats.ReconnectHandler(a.up),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) { a.down(lost(err)) }),
		nats.ReconnectErrHandler(func(_ *nats.Conn, err error) { a.down(err) }),
		nats.ErrorHandler(a.failed), nats.ClosedHandler(a.closed),
	)
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.conn = conn
	for subject, handler := range a.handlers {
		if _, err := conn.Subscribe(subject, handler); err != nil {
			conn.Close()
			return err
		}
	}
	return nil
}

// errLost is the end of an established connection.
var errLost = errors.New("connection lost")

func lost(err error) error {
	if err == nil {
		return errLost
	}
	return fmt.Errorf("%w: %w", errLost, err)
}

// pause is the time before the next attempt.
func (a *Agent) pause(attempt int) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.tried {
		a.tried = true
		return 0
	}
	return backOff(max(attempt, a.refusals))
}

// up is called by NATS when TCP, TLS and NATS are established. The server has not yet
// accepted the agent.
func (a *Agent) up(conn *nats.Conn) {
	a.mu.Lock()
	if a.stopped {
		a.mu.Unlock()
		return
	}
	a.drop(errReplaced)
	ctx, drop := context.WithCancelCause(a.ctx)
	a.link, a.drop = ctx, drop
	a.tasks.Add(1)
	a.mu.Unlock()
	go func() {
		defer a.tasks.Done()
		a.hello(ctx, conn)
	}()
}

var errReplaced = errors.New("the connection was replaced")

// hello asks whether the connection is accepted. An external NATS cluster does not
// permit that, or does not answer; it counts as accepted.
func (a *Agent) hello(link context.Context, conn *nats.Conn) {
	err := ask(link, conn)
	a.mu.Lock()
	if link.Err() != nil {
		a.mu.Unlock()
		return
	}
	if err != nil {
		a.refusals++
		a.refused = true
		a.drop(err)
	} else {
		a.refusals = 0
		a.connected = true
		a.refused = false
	}
	a.changed = append(a.changed, change{err == nil, err})
	a.mu.Unlock()
	a.report()
}

// ask returns ErrRefused with the reason, or nil.
func ask(link context.Context, conn *nats.Conn) error {
	id, err := conn.GetClientID()
	if err != nil {
		return nil // a cluster without client numbers
	}
	subscription, err := conn.SubscribeSync(connectionSubject(answerPrefix, id))
	if err != nil {
		return nil // the connection is closed: the next one asks
	}
	defer func() { _ = subscription.Unsubscribe() }() // fails only on a closed connection
	m := &nats.Msg{Subject: connectionSubject(helloPrefix, id), Reply: subscription.Subject}
	if err := conn.PublishMsg(m); err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(link, helloTime)
	defer cancel()
	if err := conn.FlushWithContext(ctx); err != nil {
		return nil
	}
	answer, err := subscription.NextMsgWithContext(ctx) // at once, if a cluster did not permit the subscription
	if err != nil {
		return nil
	}
	if err := outcome(answer.Header); errors.Is(err, ErrRefused) {
		return err
	}
	return nil
}

// down records that the link is down, and why. NATS calls it many times for one
// cause.
func (a *Agent) down(err error) {
	rejected := wasRefused(err)
	a.mu.Lock()
	// After a refusal the server disconnects: not a new reason.
	quiet := err == nil || a.stopped || errors.Is(err, errLater) || errors.Is(err, nats.ErrNoServers) ||
		a.refused && errors.Is(err, errLost)
	a.connected = false
	a.drop(ErrOffline)
	if !quiet {
		a.refused = rejected
	}
	if rejected {
		a.refusals++
		err = fmt.Errorf("%w: %s", ErrRefused, strings.TrimPrefix(err.Error(), "nats: "))
	}
	if !quiet {
		a.changed = append(a.changed, change{false, err})
	}
	a.mu.Unlock()
	a.report()
}

// wasRefused reports whether NATS itself refused the connection.
func wasRefused(err error) bool {
	return slices.ContainsFunc([]error{nats.ErrAuthorization, nats.ErrAuthExpired, nats.ErrAuthRevoked, nats.ErrAccountAuthExpired},
		func(refusal error) bool { return errors.Is(err, refusal) })
}

// failed handles asynchronous errors of NATS.
func (a *Agent) failed(_ *nats.Conn, _ *nats.Subscription, err error) {
	if wasRefused(err) {
		a.down(err)
		return
	}
	if errors.Is(err, nats.ErrPermissionViolation) && (strings.Contains(err.Error(), helloPrefix) || strings.Contains(err.Error(), answerPrefix)) {
		return // an external cluster
	}
	a.mu.Lock()
	connected := a.connected
	a.mu.Unlock()
	if connected { // otherwise only admitted to get the reason of a refusal
		a.log.Warn("bus error", "error", err)
	}
}

// closed is called when NATS closes a connection, on certain protocol errors; the agent
// dials again.
func (a *Agent) closed(conn *nats.Conn) {
	a.mu.Lock()
	if a.stopped {
		a.mu.Unlock()
		return
	}
	a.tasks.Add(1)
	a.mu.Unlock()
	a.down(lost(conn.LastError()))
	go func() {
		defer a.tasks.Done()
		for attempt := 1; ; attempt++ {
			select {
			case <-time.After(backOff(attempt)):
			case <-a.ctx.Done():
				return
			}
			err := a.dial()
			if err == nil {
				return
			}
			a.down(err)
		}
	}()
}

// change is one call of Changed.
type change struct {
	connected bool
	reason    error
}

// report calls Changed for the changes not yet reported, each once, in the order in which they happened: if the end
// of a connection were reported before its beginning, the agent would believe it is connected.
func (a *Agent) report() {
	a.changes.Lock()
	defer a.changes.Unlock()
	a.mu.Lock()
	changed := a.changed
	a.changed = nil
	a.mu.Unlock()
	for _, c := range changed {
		text := fmt.Sprint(c.connected, c.reason)
		if a.ctx.Err() != nil || text == a.last {
			continue
		}
		a.last = text
		if a.options.Changed != nil {
			a.options.Changed(c.connected, c.reason)
		}
	}
}
