package bus

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"

	"github.com/nats-io/nats.go"

	"pillion.dev/measure"
)

const (
	// storedPrefix begins the subjects on which servers publish the batches that they have stored.
	storedPrefix = "pillion.stored."
	// agentHeader is the message header with the name of the agent that sent the batch.
	agentHeader = "Pillion-Agent"
	// storedQueue limits the batches that wait to be published, storedBytes the received batches that wait
	// to be processed, bytes.
	storedQueue = 1024
	storedBytes = 64 << 20
)

func storedSubject(stream string) string { return storedPrefix + stream }

// Stored publishes the batches that a server of a fleet has stored, and receives what the others stored. It
// serves live views: batches that do not fit into its queues are dropped and counted. It has its own
// connection, so that requests of agents and servers do not wait behind batches.
type Stored struct {
	log   *slog.Logger
	conn  *nats.Conn
	queue chan *nats.Msg
	ended chan struct{}

	published, dropped, received, broken atomic.Uint64
	subscription                         *nats.Subscription
}

// StoredStats are numbers of batches since OpenStored.
type StoredStats struct {
	Published uint64
	// Dropped were not published: the queue was full, the batch too large or the connection failed. Missed
	// were not received, because the queue of received batches was full.
	Dropped, Missed uint64
	Received        uint64
	Broken          uint64 // received and invalid
}

// OpenStored calls receive with each batch that another server has stored, one at a time, until Close.
func (s *Server) OpenStored(ctx context.Context, receive func(agent string, batch measure.Envelope)) (*Stored, error) {
	p := &Stored{log: s.log, queue: make(chan *nats.Msg, storedQueue), ended: make(chan struct{})}
	var err error
	if p.conn, err = s.connect(ctx, nil, nats.NoEcho()); err != nil {
		return nil, fmt.Errorf("receive stored batches: %w", err)
	}
	p.subscription, err = p.conn.Subscribe(storedSubject("*"), func(m *nats.Msg) {
		agent, batch, err := parseStored(m)
		if err != nil {
			p.broken.Add(1)
			s.log.Warn("ignored a batch of another server", "subject", oneLine(m.Subject), "error", err)
			return
		}
		p.received.Add(1)
		receive(agent, batch)
	})
	if err == nil {
		err = p.subscription.SetPendingLimits(queueMessages, storedBytes)
	}
	if err == nil {
		err = p.conn.FlushTimeout(closeTime)
	}
	if err != nil {
		p.conn.Close()
		return nil, fmt.Errorf("receive stored batches: %w", err)
	}
	go p.run()
	return p, nil
}

// Publish publishes a stored batch. It does not wait.
func (p *Stored) Publish(agent string, batch measure.Envelope) {
	m := message(storedSubject(batch.Stream), "", batch)
	m.Header[agentHeader] = []string{agent}
	if len(m.Data) > MaxPayload {
		p.dropped.Add(1)
		return
	}
	select {
	case p.queue <- m:
	default:
		p.dropped.Add(1)
	}
}

func (p *Stored) run() {
	defer close(p.ended)
	for m := range p.queue {
		if err := p.conn.PublishMsg(m); err != nil {
			p.dropped.Add(1)
			p.log.Debug("publish a stored batch", "error", err)
			continue
		}
		p.published.Add(1)
	}
}

// Close publishes the waiting batches and closes the connection. Publish must not be called afterwards.
func (p *Stored) Close() {
	close(p.queue)
	<-p.ended
	_ = flush(p.conn) // at worst live views miss the last batches
	p.conn.Close()
}

// Stats returns the counters.
func (p *Stored) Stats() StoredStats {
	s := StoredStats{Published: p.published.Load(), Dropped: p.dropped.Load(), Received: p.received.Load(), Broken: p.broken.Load()}
	if missed, err := p.subscription.Dropped(); err == nil {
		s.Missed = uint64(missed)
	}
	return s
}

// parseStored reads a batch that another server has published.
func parseStored(m *nats.Msg) (agent string, batch measure.Envelope, err error) {
	agent, _ = only(m.Header, agentHeader)
	if site, of, relayed := strings.Cut(agent, "/"); !ValidAgent(site) || relayed && !ValidAgent(of) {
		return "", batch, fmt.Errorf("%w: agent %.100q", ErrRejected, agent)
	}
	text, ok := only(m.Header, batchHeader)
	if !ok {
		return "", batch, fmt.Errorf("%w: want one %s header", ErrRejected, batchHeader)
	}
	p, err := parseBatch(strings.TrimPrefix(m.Subject, storedPrefix), text)
	if err != nil {
		return "", batch, err
	}
	batch = p.Envelope
	batch.Payload = m.Data
	if p.size > 0 {
		batch.Payload, err = decompress(m.Data, p.size)
	}
	return agent, batch, err
}
