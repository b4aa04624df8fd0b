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
	// InOrder tries several URLs as they are listed, rather than in random order.
	InOrder bool
	// TLS has the agent's certificate and the roots for the server's.
	TLS  *tls.Config
	Name string
	Log  *slog.Logger
	// Changed is called, one call at a time, when the link goes up or down, and for
	// each new reason why it stays down: ErrRefused, with the server's reason, if the
	// agent is refused. It must not block and must not call Close.
	Changed func(connected bool, reason error)
}

// Agent is an agent's side of the bus. It reconnects automatically.
type Agent struct {
	options  AgentOptions
	log      *slog.Logger
	instance string // distinguishes a reconnect from another host
	ctx      context.Context
	cancel   context.CancelFunc
	tasks    sync.WaitGroup
	requests chan struct{} // one token per running control request

	changes sync.Mutex // held over Changed
	last    string     // text of the change reported last

	mu        sync.Mutex
	conn      *nats.Conn
	handlers  map[string]nats.MsgHandler // by subject
	link      context.Context            // ends when the connection does
	drop      context.CancelCauseFunc
	sending   context.Context // ends when the server asks to send again
	again     context.CancelFunc
	connected bool
	changed   []change // not yet reported
	refused   bool     // the last reason that Changed got
	refusals  int      // in a row
	tried     bool
	stopped   bool
}

// requestsAtATime limits running control requests; more are answered ErrBusy.
const requestsAtATime = 16

// ConnectAgent returns at once, whether or not the server is reachable. It fails only
// on invalid options.
func ConnectAgent(ctx context.Context, options AgentOptions) (*Agent, error) {
	if !ValidAgent(options.Name) {
		return nil, fmt.Errorf("connect to bus: invalid agent name %.100q", options.Name)
	}
	if options.TLS == nil {
		return nil, errors.New("connect to bus: TLS is required")
	}
	a := &Agent{
		options: options, log: options.Log, instance: options.Name + " " + rand.Text(),
		handlers: map[string]nats.MsgHandler{}, requests: make(chan struct{}, requestsAtATime),
	}
	if a.log == nil {
		a.log = slog.New(slog.DiscardHandler)
	}
	a.ctx, a.cancel = context.WithCancel(ctx)
	a.link, a.drop = context.WithCancelCause(a.ctx)
	a.drop(ErrOffline)
	a.sending, a.again = context.WithCancel(a.ctx)
	err := a.dial()
	if err == nil {
		err = a.subscribe(resendSubject(options.Name), a.resend)
	}
	if err != nil {
		a.cancel()
		return nil, fmt.Errorf("connect to bus %q: %w", options.URL, err)
	}
	return a, nil
}

// Connected reports whether the link is up and the server accepts the agent.
func (a *Agent) Connected() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.connected
}

// Remote returns the address of the server that the agent is connected to, HOST:PORT; empty:
// none.
func (a *Agent) Remote() string {
	conn, _, err := a.current()
	if err != nil {
		return ""
	}
	return conn.ConnectedAddr()
}

// current returns the connection, and a context that ends with it.
func (a *Agent) current() (*nats.Conn, context.Context, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.connected || a.stopped {
		return nil, nil, ErrOffline
	}
	return a.conn, a.link, nil
}

// Send sends a batch and waits until it is stored; only nil means that it is.
// ErrRejected is permanent. ErrOffline is returned as soon as the link is down. After
// any other error, including ErrBusy, the batch may or may not be stored: retry.
// Without a deadline it waits 30 s.
func (a *Agent) Send(ctx context.Context, e measure.Envelope) error {
	if err := a.send(ctx, "", e); err != nil {
		return fmt.Errorf("send batch %s/%016x/%d: %w", e.Stream, e.Epoch, e.Sequence, err)
	}
	return nil
}

// SendFor sends a batch of an agent of the site whose aggregator this agent is; the server refuses
// that to others. Otherwise it is as Send.
func (a *Agent) SendFor(ctx context.Context, agent string, e measure.Envelope) error {
	err := fmt.Errorf("%w: invalid agent name %.100q", ErrRejected, agent)
	if ValidAgent(agent) {
		err = a.send(ctx, agent, e)
	}
	if err != nil {
		return fmt.Errorf("send batch %s/%016x/%d of %s: %w", e.Stream, e.Epoch, e.Sequence, agent, err)
	}
	return nil
}

func (a *Agent) send(ctx context.Context, of string, e measure.Envelope) error {
	if !measure.ValidName(e.Stream) {
		return fmt.Errorf("%w: invalid stream name %.100q", ErrRejected, e.Stream)
	}
	if len(e.Payload) > MaxPayload {
		return fmt.Errorf("%w: %d bytes, limit %d", ErrRejected, len(e.Payload), MaxPayload)
	}
	conn, link, err := a.current()
	if err != nil {
		return err
	}
	ctx, cancel := withDeadline(ctx)
	defer cancel()
	defer context.AfterFunc(link, cancel)()
	a.mu.Lock()
	sending := a.sending
	a.mu.Unlock()
	defer context.AfterFunc(sending, cancel)()
	answer, err := conn.RequestMsgWithContext(ctx, message(dataSubject(a.options.Name, e.Stream), of, e))
	if err == nil {
		return outcome(answer.Header)
	}
	switch {
	case link.Err() != nil, errors.Is(err, nats.ErrReconnectBufExceeded), errors.Is(err, nats.ErrConnectionClosed):
		return ErrOffline
	case sending.Err() != nil:
		return errors.New("the server that received the batch may be gone")
	case errors.Is(err, nats.ErrNoResponders):
		return errors.New("no server subscribed")
	case errors.Is(err, nats.ErrMaxPayload):
		return fmt.Errorf("%w: %d bytes, limit of this bus %d", ErrRejected, len(e.Payload), conn.MaxPayload())
	}
	return err
}

// Report sends the agent's state, without acknowledgement.
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

// Serve calls the handler for each control request, concurrently. The context ends
// when the requester's timeout expires, and with Close. An error is returned to the
// requester.
func (a *Agent) Serve(handler func(ctx context.Context, request []byte) ([]byte, error)) error {
	return a.subscribe(controlSubject(a.options.Name), func(m *nats.Msg) {
		if m.Reply == "" {
			return
		}
		select {
		case a.requests <- struct{}{}:
		default:
			a.respond(m, reply(statusBusy, fmt.Errorf("%w: %d requests running", ErrBusy, requestsAtATime)))
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
		err = fmt.Errorf("reply of %d bytes, limit %d", len(data), MaxPayload)
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
		a.log.Debug("answer control request", "error", err) // the requester times out
	}
}

// Pulse calls the handler for each pulse, one at a time. It must not block.
func (a *Agent) Pulse(handler func(pulse []byte)) error {
	return a.subscribe(pulseSubject(a.options.Name), func(m *nats.Msg) { handler(m.Data) })
}

// subscribe applies to this connection and all later ones.
func (a *Agent) subscribe(subject string, handler nats.MsgHandler) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, found := a.handlers[subject]; found {
		return fmt.Errorf("subscribe to %s: already subscribed", subject)
	}
	if _, err := a.conn.Subscribe(subject, handler); err != nil {
		return fmt.Errorf("subscribe to %s: %w", subject, err)
	}
	a.handlers[subject] = handler
	return nil
}

// Close closes the link and waits a few seconds for running handlers.
func (a *Agent) Close() {
	a.mu.Lock()
	if a.stopped {
		a.mu.Unlock()
		return
	}
	a.stopped, a.connected = true, false
	conn := a.conn
	a.drop(ErrOffline)
	a.mu.Unlock()
	a.cancel()
	waitFor(&a.tasks, time.Second)
	conn.Close()
	waitFor(&a.tasks, closeTime)
}
