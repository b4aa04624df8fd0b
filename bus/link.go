package bus

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
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

// backOff is the pause before an attempt: it doubles up to longestWait, and half of
// it is drawn, so that many agents do not come back at one moment.
func backOff(attempt int) time.Duration {
	wait := longestWait
	if attempt < 7 {
		wait = min(longestWait, firstWait<<max(attempt-1, 0))
	}
	return wait/2 + rand.N(wait/2)
}

// dialer refuses the first attempt, the one that nats.Connect waits for; all others
// are made in the background.
type dialer struct {
	ctx   context.Context
	first bool
}

var errLater = errors.New("dial in the background")

// Dial is called by NATS, never twice at a time.
func (d *dialer) Dial(network, address string) (net.Conn, error) {
	if d.first {
		d.first = false
		return nil, errLater
	}
	plain := net.Dialer{Timeout: dialTime}
	return plain.DialContext(d.ctx, network, address)
}

// dial makes a NATS connection that connects in the background, with the
// subscriptions that there are.
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
	conn, err := nats.Connect(a.options.URL,
		nats.Name(a.instance), nats.Secure(a.options.TLS), nats.CustomInboxPrefix(inboxPrefix(a.options.Name)),
		nats.SetCustomDialer(&dialer{ctx: a.ctx, first: true}), nats.SkipHostLookup(), nats.IgnoreDiscoveredServers(),
		nats.Timeout(dialTime), nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1), nats.IgnoreAuthErrorAbort(),
		nats.CustomReconnectDelay(pause), nats.ReconnectBufSize(-1),
		nats.PingInterval(pingEvery), nats.MaxPingsOutstanding(pingsOut),
		nats.ConnectHandler(a.up), nats.ReconnectHandler(a.up),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) { a.down(lost(err)) }),
		nats.ReconnectErrHandler(func(_ *nats.Conn, err error) { a.down(err) }),
		nats.ErrorHandler(a.complain), nats.ClosedHandler(a.closed),
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

// errLost is the end of a connection that was there.
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

// up is called by NATS when TCP, TLS and NATS are there. Whether we are welcome
// the server has to say yet.
func (a *Agent) up(conn *nats.Conn) {
	a.mu.Lock()
	if a.stopped {
		a.mu.Unlock()
		return
	}
	a.hang(errReplaced)
	ctx, hang := context.WithCancelCause(a.ctx)
	a.link, a.hang = ctx, hang
	a.tasks.Add(1)
	a.mu.Unlock()
	go func() {
		defer a.tasks.Done()
		a.hello(ctx, conn)
	}()
}

var errReplaced = errors.New("the connection was replaced")

// hello asks whether the connection is welcome. A cluster of others does not
// answer, and then there is nothing to wait for.
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
		a.hang(err)
	} else {
		a.refusals = 0
		a.connected = true
		a.refused = false
	}
	a.mu.Unlock()
	a.change(err == nil, err)
}

// ask returns ErrRefused with the reason, or nil.
func ask(link context.Context, conn *nats.Conn) error {
	id, err := conn.GetClientID()
	if err != nil {
		return nil // a cluster that gives no numbers
	}
	subscription, err := conn.SubscribeSync(connectionSubject(answerPrefix, id))
	if err != nil {
		return nil // the connection has gone: the next one asks
	}
	defer func() { _ = subscription.Unsubscribe() }() // fails only on a connection that has gone
	m := &nats.Msg{Subject: connectionSubject(helloPrefix, id), Reply: subscription.Subject}
	if err := conn.PublishMsg(m); err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(link, helloTime)
	defer cancel()
	answer, err := subscription.NextMsgWithContext(ctx)
	if err != nil {
		return nil
	}
	if err := outcome(answer.Header); errors.Is(err, ErrRefused) {
		return err
	}
	return nil
}

// down notes that the link is down, and why. NATS calls it many times for one
// cause.
func (a *Agent) down(err error) {
	rejected := wasRefused(err)
	a.mu.Lock()
	// After a refusal the server hangs up; that is no news.
	quiet := err == nil || a.stopped || errors.Is(err, errLater) || errors.Is(err, nats.ErrNoServers) ||
		a.refused && errors.Is(err, errLost)
	a.connected = false
	a.hang(ErrOffline)
	if !quiet {
		a.refused = rejected
	}
	if rejected {
		a.refusals++
	}
	a.mu.Unlock()
	if quiet {
		return
	}
	if rejected {
		err = fmt.Errorf("%w: %s", ErrRefused, strings.TrimPrefix(err.Error(), "nats: "))
	}
	a.change(false, err)
}

// wasRefused reports whether NATS itself turned us away.
func wasRefused(err error) bool {
	for _, refusal := range []error{nats.ErrAuthorization, nats.ErrAuthExpired, nats.ErrAuthRevoked, nats.ErrAccountAuthExpired} {
		if errors.Is(err, refusal) {
			return true
		}
	}
	return false
}

// complain takes what NATS says beside calls.
func (a *Agent) complain(_ *nats.Conn, _ *nats.Subscription, err error) {
	if wasRefused(err) {
		a.down(err)
		return
	}
	a.mu.Lock()
	connected := a.connected
	a.mu.Unlock()
	if connected { // otherwise we were only let in to hear a refusal
		a.log.Warn("bus", "error", err)
	}
}

// closed is called when NATS gives a connection up, on some faults of the protocol;
// we never do.
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

// change tells the owner, once for each change.
func (a *Agent) change(connected bool, reason error) {
	a.changes.Lock()
	defer a.changes.Unlock()
	text := fmt.Sprint(connected, reason)
	if a.ctx.Err() != nil || text == a.said {
		return
	}
	a.said = text
	if a.options.Changed != nil {
		a.options.Changed(connected, reason)
	}
}
