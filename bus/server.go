package bus

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"pillion.dev/measure"
)

// ServerOptions of a server's side of the bus.
type ServerOptions struct {
	// InProcess is the embedded server; without one URL is a NATS cluster of
	// others, reached with TLS. Several URLs are separated by commas.
	InProcess *Embedded
	URL       string
	TLS       *tls.Config
	Log       *slog.Logger
	// Backlog is how much, bytes, may wait for the handler of batches; what comes
	// on top is answered ErrBusy at once. Default 64 MiB, at least MaxPayload.
	Backlog int64
	// Changed is told when the link to a cluster goes down, and why, and when it
	// comes back.
	Changed func(connected bool, reason error)
}

// Server is a server's side of the bus.
type Server struct {
	options ServerOptions
	log     *slog.Logger
	conn    *nats.Conn
	backlog chan Delivery
	done    chan struct{}
	workers sync.WaitGroup
	stop    sync.Once

	mu   sync.Mutex
	data *nats.Subscription

	waiting                                  atomic.Int64 // bytes in backlog
	batches, rejected, busy, retries, states atomic.Uint64
}

// Delivery is a batch that came. Answer says what became of it, once, from any
// goroutine: nil when it is stored, ErrRejected or measure.ErrBatch when it never
// will be; after any other error the agent sends it again. An agent that hears
// nothing sends it again too.
type Delivery struct {
	Agent string
	measure.Envelope
	Answer func(error)
}

// ServerStats count since the start. Nothing of it is lost: whatever was not
// stored its sender still has.
type ServerStats struct {
	Batches  uint64 // came
	Rejected uint64 // malformed, or Answer said so
	Retries  uint64 // Answer asked to send again
	Busy     uint64 // turned away because the backlog was full
	Dropped  uint64 // by the NATS client, unanswered
	States   uint64
	Waiting  int64 // bytes in the backlog now
}

const (
	backlogBytes   = 64 << 20
	backlogBatches = 1 << 14
	// The NATS client's own queue only bridges what one goroutine needs to move a
	// message to the backlog.
	queueBytes    = 256 << 20
	queueMessages = 1 << 16
	closeTime     = 5 * time.Second
)

// ConnectServer connects; it fails when nobody answers at the URL.
func ConnectServer(ctx context.Context, options ServerOptions) (*Server, error) {
	s := &Server{options: options, log: options.Log, backlog: make(chan Delivery, backlogBatches), done: make(chan struct{})}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if options.Backlog == 0 {
		s.options.Backlog = backlogBytes
	}
	s.options.Backlog = max(s.options.Backlog, MaxPayload)
	common := []nats.Option{
		nats.Name("pillion-server"), nats.CustomInboxPrefix(serverInbox),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			s.log.Warn("bus", "error", err)
		}),
	}
	var err error
	if options.InProcess != nil {
		s.conn, err = options.InProcess.connect(ctx, common...)
	} else {
		s.conn, err = s.connectCluster(ctx, common)
	}
	if err != nil {
		return nil, fmt.Errorf("connect to bus %q: %w", options.URL, err)
	}
	return s, nil
}

func (s *Server) connectCluster(ctx context.Context, options []nats.Option) (*nats.Conn, error) {
	if s.options.TLS == nil {
		return nil, errors.New("a cluster needs TLS")
	}
	changed := func(connected bool, reason error) {
		s.log.Info("bus", "connected", connected, "reason", reason)
		if s.options.Changed != nil {
			s.options.Changed(connected, reason)
		}
	}
	wait := nats.GetDefaultOptions().Timeout
	if deadline, ok := ctx.Deadline(); ok {
		wait = time.Until(deadline)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return nats.Connect(s.options.URL, append(options,
		nats.Secure(s.options.TLS), nats.Timeout(wait), nats.MaxReconnects(-1), nats.IgnoreAuthErrorAbort(),
		nats.ReconnectBufSize(-1), nats.CustomReconnectDelay(backOff),
		nats.PingInterval(pingEvery), nats.MaxPingsOutstanding(pingsOut),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) { changed(false, err) }),
		nats.ReconnectHandler(func(*nats.Conn) { changed(true, nil) }),
		nats.ClosedHandler(func(c *nats.Conn) {
			if err := c.LastError(); err != nil {
				changed(false, err)
			}
		}),
	)...)
}

// Connected reports whether the link is up.
func (s *Server) Connected() bool { return s.conn.IsConnected() }

// Stats are the counters.
func (s *Server) Stats() ServerStats {
	stats := ServerStats{
		Batches: s.batches.Load(), Rejected: s.rejected.Load(), Retries: s.retries.Load(),
		Busy: s.busy.Load(), States: s.states.Load(), Waiting: s.waiting.Load(),
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.data != nil {
		if dropped, err := s.data.Dropped(); err == nil {
			stats.Dropped = uint64(dropped)
		}
	}
	return stats
}

// ServeData gives each batch to the handler, one at a time, in the order in which
// they came. Servers of one cluster share the batches. A handler that blocks holds
// the following ones back: up to Backlog bytes wait, the rest is answered ErrBusy.
func (s *Server) ServeData(handler func(Delivery)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.data != nil {
		return errors.New("serve data: served already")
	}
	subscription, err := s.conn.QueueSubscribe(dataSubject("*", "*"), serverQueue, s.receive)
	if err == nil {
		err = subscription.SetPendingLimits(queueMessages, queueBytes)
	}
	if err == nil {
		err = s.conn.FlushTimeout(closeTime)
	}
	if err != nil {
		return fmt.Errorf("serve data: %w", err)
	}
	s.data = subscription
	s.workers.Go(func() {
		for {
			select {
			case d := <-s.backlog:
				handler(d)
				s.waiting.Add(-int64(len(d.Payload)))
			case <-s.done:
				return
			}
		}
	})
	return nil
}

// receive puts a batch into the backlog, or answers at once.
func (s *Server) receive(m *nats.Msg) {
	s.batches.Add(1)
	d, err := s.parse(m)
	if d.Agent == "" {
		s.rejected.Add(1)
		s.log.Warn("ignore batch", "subject", oneLine(m.Subject), "error", err)
		return
	}
	if err != nil {
		d.Answer(err)
		return
	}
	size := int64(len(d.Payload))
	if s.waiting.Add(size) <= s.options.Backlog {
		select {
		case s.backlog <- d:
			return
		default:
		}
	}
	s.waiting.Add(-size)
	d.Answer(fmt.Errorf("%w: the server stores batches slower than they come", ErrBusy))
}

// parse reads a message. Without an agent it is not to be answered: the reply would
// go where the sender itself may not publish.
func (s *Server) parse(m *nats.Msg) (Delivery, error) {
	tokens := strings.Split(m.Subject, ".")
	if len(tokens) != 4 || !ValidAgent(tokens[2]) {
		return Delivery{}, errors.New("not a data subject of an agent")
	}
	agent, stream := tokens[2], tokens[3]
	if !strings.HasPrefix(m.Reply, inboxPrefix(agent)+".") {
		return Delivery{}, fmt.Errorf("the reply would go to %.100q, which is not the agent's", m.Reply)
	}
	d := Delivery{Agent: agent, Answer: s.answer(m)}
	if len(m.Data) > MaxPayload {
		return d, fmt.Errorf("%w: %d bytes, the limit is %d", ErrRejected, len(m.Data), MaxPayload)
	}
	text, ok := only(m.Header, batchHeader)
	if !ok {
		return d, fmt.Errorf("%w: no %s header, or more than one", ErrRejected, batchHeader)
	}
	var err error
	d.Envelope, err = parseBatch(stream, text)
	d.Payload = m.Data
	return d, err
}

func (s *Server) answer(m *nats.Msg) func(error) {
	var once sync.Once
	subject := m.Reply
	return func(err error) {
		once.Do(func() {
			status := statusOK
			switch {
			case err == nil:
			case errors.Is(err, ErrRejected), errors.Is(err, measure.ErrBatch):
				s.rejected.Add(1)
				status = statusRejected
			case errors.Is(err, ErrBusy):
				s.busy.Add(1)
				status = statusBusy
			default:
				s.retries.Add(1)
				status = statusRetry
			}
			answer := reply(status, err)
			answer.Subject = subject
			if err := s.conn.PublishMsg(answer); err != nil {
				s.log.Debug("answer batch", "error", err) // the agent sends it again
			}
		})
	}
}

// ServeStates gives each agent's state to the handler. It must be quick; states
// that come faster than it takes them are dropped.
func (s *Server) ServeStates(handler func(agent string, state []byte)) error {
	_, err := s.conn.Subscribe(stateSubject("*"), func(m *nats.Msg) {
		agent := strings.TrimPrefix(m.Subject, stateSubject(""))
		if !ValidAgent(agent) {
			return
		}
		s.states.Add(1)
		handler(agent, m.Data)
	})
	if err == nil {
		err = s.conn.FlushTimeout(closeTime)
	}
	if err != nil {
		return fmt.Errorf("serve states: %w", err)
	}
	return nil
}

// Ask sends the agent a request and returns its reply: ErrAway when it is not
// there, otherwise the error that its handler returned. Without a deadline it
// waits 30 s.
func (s *Server) Ask(ctx context.Context, agent string, request []byte) ([]byte, error) {
	if !ValidAgent(agent) {
		return nil, fmt.Errorf("ask agent %.100q: not an agent's name", agent)
	}
	ctx, cancel := withDeadline(ctx)
	defer cancel()
	deadline, _ := ctx.Deadline()
	m := &nats.Msg{Subject: controlSubject(agent), Data: request, Header: nats.Header{
		timeoutHeader: {formatWait(time.Until(deadline))},
	}}
	answer, err := s.conn.RequestMsgWithContext(ctx, m)
	if errors.Is(err, nats.ErrNoResponders) {
		err = ErrAway
	}
	if err == nil {
		err = outcome(answer.Header)
	}
	if err != nil {
		return nil, fmt.Errorf("ask agent %q: %w", agent, err)
	}
	return answer.Data, nil
}

// Pulse sends the agent a pulse. Whether it came nobody says.
func (s *Server) Pulse(agent string, pulse []byte) error {
	if !ValidAgent(agent) {
		return fmt.Errorf("send pulse to agent %.100q: not an agent's name", agent)
	}
	if err := s.conn.Publish(pulseSubject(agent), pulse); err != nil {
		return fmt.Errorf("send pulse to agent %q: %w", agent, err)
	}
	return nil
}

// Close ends the link. A handler that runs ends first, if it does so soon.
func (s *Server) Close() {
	s.stop.Do(func() {
		close(s.done)
		waitFor(&s.workers, closeTime)
		s.conn.Close()
	})
}

func withDeadline(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, requestTime)
}

// waitFor waits for the group, at most for the time.
func waitFor(group *sync.WaitGroup, limit time.Duration) {
	ended := make(chan struct{})
	go func() {
		group.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(limit):
	}
}
