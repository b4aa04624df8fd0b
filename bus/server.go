package bus

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"pillion.dev/internal/quota"
	"pillion.dev/measure"
)

// ServerOptions of a server's side of the bus.
type ServerOptions struct {
	// InProcess is the embedded server; if nil, URL is an external NATS cluster,
	// reached with TLS. Several URLs are separated by commas.
	InProcess *Embedded
	URL       string
	TLS       *tls.Config
	Log       *slog.Logger
	// Backlog limits the batches queued for the handler, bytes, and Share the batches of
	// one agent; more are answered ErrBusy at once. Default 64 MiB and 36 MiB, at least
	// MaxPayload.
	Backlog, Share int64
	// States limits an agent's state reports per second; default StatesPerSecond.
	States int
	// Exceeded, if set, is called for each message of an agent beyond a quota. It must not
	// block.
	Exceeded func(agent string, err error)
	// Admit, if set, returns why batches of an agent are not accepted, or nil. Only an
	// embedded server disconnects an agent that is revoked: on an external cluster, which
	// verifies no more than the certificate, this is what stops it. It must be fast.
	Admit func(agent string) error
	// Site, if set, returns the site for whose agents an agent may send batches; empty: for none.
	// It must be fast.
	Site func(agent string) string
	// Changed is called when the link to a cluster goes down, with the reason, and
	// when it is up again.
	Changed func(connected bool, reason error)
}

// Server is a server's side of the bus.
type Server struct {
	options ServerOptions
	log     *slog.Logger
	conn    *nats.Conn
	backlog *fairQueue
	answers answers
	done    chan struct{}
	workers sync.WaitGroup
	stop    sync.Once

	mu      sync.Mutex
	data    *nats.Subscription
	serving bool
	lanes   map[int]*nats.Subscription

	floods                           *rates // messages beyond a quota
	batches, rejected, busy, retries atomic.Uint64
	unsupported, refused, exceeded   atomic.Uint64
	received, unpacked               atomic.Uint64
}

// Delivery is a received batch. Answer, called once from any goroutine, replies: nil if
// it is stored, ErrRejected or measure.ErrBatch if rejected permanently, ErrUnsupported or
// measure.ErrUnknown if a later version may store it, ErrRefused if the agent is not
// admitted; after any other error, or no reply, the agent retransmits it.
type Delivery struct {
	// Agent is the sender.
	Agent string
	// Lane of the agent, or NoLane.
	Lane int
	// Of is the agent of a site whose rows the sender, an aggregator, delivers: SITE/AGENT; empty:
	// they are the sender's. Site is that site.
	Of, Site string
	measure.Envelope
	Answer func(error)

	size int // of a payload that is still compressed, bytes; 0: it is not
}

// ServerStats are counters since the start. No batch is lost: the sender keeps those
// that were not stored.
type ServerStats struct {
	Batches  uint64 // received
	Rejected uint64 // malformed, or by Answer
	Retries  uint64 // temporary errors of Answer
	Busy     uint64 // refused because the backlog was full
	// Unsupported are of a later version, Refused of agents that Admit does not admit;
	// both count each attempt.
	Unsupported, Refused uint64
	Exceeded             uint64 // messages beyond an agent's quota
	Dropped              uint64 // by the NATS client, unanswered
	// Received are bytes of payloads as they came, of batches passed to the handler, Unpacked those after decompression.
	Received, Unpacked uint64
	Waiting            int64 // bytes in the backlog now, after decompression
}

const (
	backlogBytes = 64 << 20
	shareBytes   = 36 << 20 // more than an agent has in flight
	// refusedPerSecond is the rate of refused messages beyond which an agent floods: an
	// agent that is refused waits before it tries again.
	refusedPerSecond = StatesPerSecond * floodFactor
	// The NATS client's own queue only bridges the time to move a message to the
	// backlog.
	queueBytes    = 256 << 20
	queueMessages = 1 << 16
	closeTime     = 5 * time.Second
)

// ConnectServer connects; it fails if the bus is unreachable.
func ConnectServer(ctx context.Context, options ServerOptions) (*Server, error) {
	s := &Server{options: options, log: options.Log, done: make(chan struct{}), lanes: map[int]*nats.Subscription{}, floods: newRates(refusedPerSecond, 10*refusedPerSecond)}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.options.Backlog = max(cmp.Or(options.Backlog, backlogBytes), MaxPayload+batchCost)
	s.options.Share = max(cmp.Or(options.Share, shareBytes), MaxPayload+batchCost)
	s.options.States = cmp.Or(options.States, StatesPerSecond)
	s.backlog = newFairQueue(s.options.Backlog, s.options.Share)
	var err error
	if s.conn, err = s.connect(ctx, options.Changed); err != nil {
		return nil, fmt.Errorf("connect to bus %q: %w", options.URL, err)
	}
	if err := s.answers.open(s.conn); err != nil {
		s.conn.Close()
		return nil, fmt.Errorf("connect to bus %q: %w", options.URL, err)
	}
	return s, nil
}

// connect opens a connection; changed, if set, is told when that to a cluster goes down and up.
func (s *Server) connect(ctx context.Context, changed func(connected bool, reason error), more ...nats.Option) (*nats.Conn, error) {
	options := append(more, nats.Name("pillion-server"), nats.CustomInboxPrefix(serverInbox),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			s.log.Warn("bus error", "error", err)
		}))
	if s.options.InProcess != nil {
		return s.options.InProcess.connect(ctx, options...)
	}
	return s.connectCluster(ctx, changed, options)
}

func (s *Server) connectCluster(ctx context.Context, tell func(bool, error), options []nats.Option) (*nats.Conn, error) {
	if s.options.TLS == nil {
		return nil, errors.New("a cluster requires TLS")
	}
	changed := func(connected bool, reason error) {
		s.log.Info("bus link changed", "connected", connected, "reason", reason)
		if tell != nil {
			tell(connected, reason)
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
		Busy: s.busy.Load(), Unsupported: s.unsupported.Load(), Refused: s.refused.Load(), Waiting: s.backlog.waiting(), Exceeded: s.exceeded.Load(),
		Received: s.received.Load(), Unpacked: s.unpacked.Load(),
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, subscription := range append(slices.Collect(maps.Values(s.lanes)), s.data) {
		if dropped, err := subscription.Dropped(); err == nil {
			stats.Dropped += uint64(dropped)
		}
	}
	return stats
}

// ServeData calls the handler for each batch, one at a time: the batches of an agent in order
// of arrival, the agents in turn. The servers of a cluster share the batches. While the
// handler blocks, up to Backlog bytes are queued and the rest is answered ErrBusy.
func (s *Server) ServeData(handler func(Delivery)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.serving {
		return errors.New("serve data: already serving")
	}
	subscription, err := s.conn.QueueSubscribe(dataSubject("*", "*"), serverQueue, s.receive)
	if err == nil {
		err = subscription.SetPendingLimits(queueMessages, queueBytes)
	}
	if err == nil && s.options.InProcess == nil { // a cluster may map them, although this server has no lanes
		s.lanes[NoLane], err = s.conn.QueueSubscribe(laneSubject("*", "*", "*"), serverQueue, s.receive)
	}
	if err == nil {
		err = s.conn.FlushTimeout(closeTime)
	}
	if err != nil {
		return fmt.Errorf("serve data: %w", err)
	}
	s.data, s.serving = subscription, true
	s.work(handler)
	return nil
}

// work calls the handler for each batch of the backlog.
func (s *Server) work(handler func(Delivery)) {
	s.workers.Go(func() {
		for {
			d, open := s.backlog.next(s.done)
			if !open {
				return
			}
			if s.unpack(&d) {
				handler(d)
			}
		}
	})
}

// unpack decompresses the payload of a batch, or refuses the batch.
func (s *Server) unpack(d *Delivery) bool {
	s.received.Add(uint64(len(d.Payload)))
	if d.size > 0 {
		payload, err := decompress(d.Payload, d.size)
		if err != nil {
			d.Answer(err)
			s.overstep(d.Agent, err)
			return false
		}
		d.Payload, d.size = payload, 0
	}
	s.unpacked.Add(uint64(len(d.Payload)))
	return true
}

// receive queues a batch, or answers at once.
func (s *Server) receive(m *nats.Msg) {
	s.batches.Add(1)
	d, err := s.parse(m)
	if d.Agent == "" {
		s.rejected.Add(1)
		s.log.Warn("ignored batch", "subject", oneLine(m.Subject), "error", err)
		return
	}
	if s.options.Admit != nil {
		if refusal := s.options.Admit(d.Agent); refusal != nil {
			err = fmt.Errorf("%w: %w", ErrRefused, refusal)
		}
	}
	if err == nil && d.Of != "" {
		err = s.relayed(&d)
	}
	if err != nil {
		d.Answer(err)
		if errors.Is(err, ErrRejected) {
			s.overstep(d.Agent, err)
		} else {
			s.flood(d.Agent, err)
		}
		return
	}
	refused, own := s.backlog.put(d)
	for _, one := range refused {
		if own {
			err := &quota.Error{Quota: "backlog_bytes", Limit: s.options.Share, Unit: "bytes of queued batches for each agent",
				What: fmt.Sprintf("queue a batch of %q", one.Stream), Later: true}
			one.Answer(fmt.Errorf("%w: %w", ErrBusy, err))
			s.overstep(one.Agent, err)
			continue
		}
		err := fmt.Errorf("%w: batches arrive faster than the server stores them", ErrBusy)
		one.Answer(err)
		s.flood(one.Agent, err)
	}
}

// relayed gives the agent of a batch that is sent for another the name that it has here: a name with
// the site of the sender, which no agent can have.
func (s *Server) relayed(d *Delivery) error {
	if s.options.Site != nil {
		d.Site = s.options.Site(d.Agent)
	}
	if d.Site == "" {
		return fmt.Errorf("%w: agent %q is no aggregator: its join token names no site", ErrRefused, d.Agent)
	}
	d.Of = d.Site + "/" + d.Of
	return nil
}

// parse reads a message. Without an agent it must not be answered: the sender itself
// may not publish to the reply subject.
func (s *Server) parse(m *nats.Msg) (Delivery, error) {
	lane, agent, stream, err := sender(m.Subject)
	if err != nil {
		return Delivery{}, err
	}
	if !strings.HasPrefix(m.Reply, inboxPrefix(agent)+".") {
		return Delivery{}, fmt.Errorf("reply subject %.100q is not the agent's", m.Reply)
	}
	d := Delivery{Agent: agent, Lane: lane, Answer: s.answer(m)}
	if len(m.Data) > MaxPayload {
		return d, fmt.Errorf("%w: %d bytes, limit %d", ErrRejected, len(m.Data), MaxPayload)
	}
	text, ok := only(m.Header, batchHeader)
	if !ok {
		return d, fmt.Errorf("%w: want one %s header", ErrRejected, batchHeader)
	}
	p, err := parseBatch(stream, text)
	d.Envelope, d.size, d.Of = p.Envelope, p.size, p.of
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
			case errors.Is(err, ErrUnsupported), errors.Is(err, measure.ErrUnknown):
				s.unsupported.Add(1)
				status = statusUnsupported
			case errors.Is(err, ErrRefused):
				s.refused.Add(1)
				status = statusRefused
			default:
				s.retries.Add(1)
				status = statusRetry
			}
			answer := reply(status, err)
			answer.Subject = subject
			if err := s.conn.PublishMsg(answer); err != nil {
				s.log.Debug("answer batch", "error", err) // the agent retransmits it
			}
		})
	}
}

// Pulse sends the agent a pulse, without acknowledgement.
func (s *Server) Pulse(agent string, pulse []byte) error {
	if !ValidAgent(agent) {
		return fmt.Errorf("send pulse to agent: invalid name %.100q", agent)
	}
	if err := s.conn.Publish(pulseSubject(agent), pulse); err != nil {
		return fmt.Errorf("send pulse to agent %q: %w", agent, err)
	}
	return nil
}

// Close closes the link, after waiting a few seconds for a running handler.
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

// waitFor waits for the group, up to the limit.
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
