package bus

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"pillion.dev/measure"
)

// AgentOptions of an agent's side of the bus.
type AgentOptions struct {
	// URL of the bus, tls://host:port; several are separated by commas.
	URL string
	// TLS has the agent's certificate and how the server proves itself.
	TLS  *tls.Config
	Name string
	Log  *slog.Logger
	// Changed is told, one call at a time, when the link goes up or down, and each
	// new reason for which it stays down: ErrRefused with the server's words when
	// we are not wanted. It must return soon and must not call Close.
	Changed func(connected bool, reason error)
}

// Agent is an agent's side of the bus. It connects and reconnects by itself, for
// ever.
type Agent struct {
	options  AgentOptions
	log      *slog.Logger
	instance string // tells the server our old connection from another host's
	ctx      context.Context
	cancel   context.CancelFunc
	tasks    sync.WaitGroup
	requests chan struct{} // one token for each control request that runs

	changes sync.Mutex // held over Changed
	said    string

	mu        sync.Mutex
	conn      *nats.Conn
	handlers  map[string]nats.MsgHandler // by subject
	link      context.Context            // ends when the connection does
	hang      context.CancelCauseFunc
	connected bool
	refused   bool // the reason that Changed was told last
	refusals  int  // in a row
	tried     bool
	stopped   bool
}

// requestsAtATime bounds the control requests that run; more are answered ErrBusy.
const requestsAtATime = 16

// ConnectAgent returns at once, whether the server is there or not. It fails only
// on options that can never work.
func ConnectAgent(ctx context.Context, options AgentOptions) (*Agent, error) {
	if !ValidAgent(options.Name) {
		return nil, fmt.Errorf("connect to bus: %.100q is not an agent's name", options.Name)
	}
	if options.TLS == nil {
		return nil, errors.New("connect to bus: TLS is needed")
	}
	a := &Agent{
		options: options, log: options.Log, instance: options.Name + " " + rand.Text(),
		handlers: map[string]nats.MsgHandler{}, requests: make(chan struct{}, requestsAtATime),
	}
	if a.log == nil {
		a.log = slog.New(slog.DiscardHandler)
	}
	a.ctx, a.cancel = context.WithCancel(ctx)
	a.link, a.hang = context.WithCancelCause(a.ctx)
	a.hang(ErrOffline)
	if err := a.dial(); err != nil {
		a.cancel()
		return nil, fmt.Errorf("connect to bus %q: %w", options.URL, err)
	}
	return a, nil
}

// Connected reports whether the link is up and the server has us.
func (a *Agent) Connected() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.connected
}

// current is the connection, with the context that ends with it.
func (a *Agent) current() (*nats.Conn, context.Context, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.connected || a.stopped {
		return nil, nil, ErrOffline
	}
	return a.conn, a.link, nil
}

// Send sends a batch and waits until it is stored; nil says that and nothing else
// does. ErrRejected: it never will be. ErrOffline: at once when the link is down, or
// as soon as it goes down. After any other error, ErrBusy among them, the batch may
// be stored or not: send it again later. Without a deadline it waits 30 s.
func (a *Agent) Send(ctx context.Context, e measure.Envelope) error {
	if err := a.send(ctx, e); err != nil {
		return fmt.Errorf("send batch %s/%016x/%d: %w", e.Stream, e.Epoch, e.Sequence, err)
	}
	return nil
}

func (a *Agent) send(ctx context.Context, e measure.Envelope) error {
	if !measure.ValidName(e.Stream) {
		return fmt.Errorf("%w: %.100q is not a stream's name", ErrRejected, e.Stream)
	}
	if len(e.Payload) > MaxPayload {
		return fmt.Errorf("%w: %d bytes, the limit is %d", ErrRejected, len(e.Payload), MaxPayload)
	}
	conn, link, err := a.current()
	if err != nil {
		return err
	}
	ctx, cancel := withDeadline(ctx)
	defer cancel()
	defer context.AfterFunc(link, cancel)()
	answer, err := conn.RequestMsgWithContext(ctx, &nats.Msg{
		Subject: dataSubject(a.options.Name, e.Stream), Data: e.Payload,
		Header: nats.Header{batchHeader: {formatBatch(&e)}},
	})
	switch {
	case err == nil:
		return outcome(answer.Header)
	case link.Err() != nil, errors.Is(err, nats.ErrReconnectBufExceeded), errors.Is(err, nats.ErrConnectionClosed):
		return ErrOffline
	case errors.Is(err, nats.ErrNoResponders):
		return errors.New("no server takes batches now")
	case errors.Is(err, nats.ErrMaxPayload):
		return fmt.Errorf("%w: %d bytes, the limit of this bus is %d", ErrRejected, len(e.Payload), conn.MaxPayload())
	}
	return err
}

// Report sends the agent's state. Whether it came nobody says.
func (a *Agent) Report(state []byte) error {
	conn, _, err := a.current()
	if err == nil {
		err = conn.Publish(stateSubject(a.options.Name), state)
	}
	if err != nil {
		return fmt.Errorf("report state: %w", err)
	}
	return nil
}

// Serve gives each control request to the handler, each in a goroutine of its own,
// so a later request can overtake an earlier one. The context ends when the asker
// no longer waits, and with Close. An error is what the asker gets.
func (a *Agent) Serve(handler func(ctx context.Context, request []byte) ([]byte, error)) error {
	return a.subscribe(controlSubject(a.options.Name), func(m *nats.Msg) {
		if m.Reply == "" {
			return
		}
		select {
		case a.requests <- struct{}{}:
		default:
			a.respond(m, reply(statusBusy, fmt.Errorf("%w: %d requests run", ErrBusy, requestsAtATime)))
			return
		}
		a.mu.Lock()
		stopped := a.stopped
		if !stopped {
			a.tasks.Add(1)
		}
		a.mu.Unlock()
		if stopped {
			return
		}
		go func() {
			defer a.tasks.Done()
			defer func() { <-a.requests }()
			ctx, cancel := context.WithTimeout(a.ctx, waitTime(m.Header))
			defer cancel()
			a.respond(m, serve(ctx, handler, m.Data))
		}()
	})
}

func serve(ctx context.Context, handler func(context.Context, []byte) ([]byte, error), request []byte) *nats.Msg {
	data, err := handler(ctx, request)
	if err == nil && len(data) > MaxPayload {
		err = fmt.Errorf("the reply has %d bytes, the limit is %d", len(data), MaxPayload)
	}
	if err != nil {
		return reply(statusError, err)
	}
	answer := reply(statusOK, nil)
	answer.Data = data
	return answer
}

func (a *Agent) respond(m, answer *nats.Msg) {
	if err := m.RespondMsg(answer); err != nil {
		a.log.Debug("answer control request", "error", err) // the asker gives up by itself
	}
}

// Pulse gives each pulse to the handler, one at a time. It must return soon.
func (a *Agent) Pulse(handler func(pulse []byte)) error {
	return a.subscribe(pulseSubject(a.options.Name), func(m *nats.Msg) { handler(m.Data) })
}

// subscribe holds on this connection and on every later one.
func (a *Agent) subscribe(subject string, handler nats.MsgHandler) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, found := a.handlers[subject]; found {
		return fmt.Errorf("subscribe to %s: served already", subject)
	}
	if _, err := a.conn.Subscribe(subject, handler); err != nil {
		return fmt.Errorf("subscribe to %s: %w", subject, err)
	}
	a.handlers[subject] = handler
	return nil
}

// Close ends the link, and what runs on it within seconds.
func (a *Agent) Close() {
	a.mu.Lock()
	if a.stopped {
		a.mu.Unlock()
		return
	}
	a.stopped, a.connected = true, false
	conn := a.conn
	a.hang(ErrOffline)
	a.mu.Unlock()
	a.cancel()
	waitFor(&a.tasks, time.Second)
	conn.Close()
	waitFor(&a.tasks, closeTime)
}
