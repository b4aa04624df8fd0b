package bus

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// askPrefix begins the subjects at which agents answer requests. They are not in the server's
// inbox: a leaf, on which all agents of a site answer, must not publish there.
const askPrefix = "pillion.answer."

// NATS answers itself, with this header, if nobody is subscribed.
const (
	natsStatus   = "Status"
	noResponders = "503"
)

// answers are the requests of a server that agents have not yet answered.
type answers struct {
	prefix string

	mu      sync.Mutex
	waiting map[string]chan *nats.Msg // by subject
}

func (a *answers) open(conn *nats.Conn) error {
	a.prefix, a.waiting = askPrefix+rand.Text()+".", map[string]chan *nats.Msg{}
	_, err := conn.Subscribe(a.prefix+"*", a.answered)
	return err
}

func (a *answers) answered(m *nats.Msg) {
	a.mu.Lock()
	waiting := a.waiting[m.Subject]
	delete(a.waiting, m.Subject)
	a.mu.Unlock()
	if waiting != nil {
		waiting <- m
	}
}

// wait returns the subject of an answer, its channel, and a function to call in the end.
func (a *answers) wait() (subject string, answer <-chan *nats.Msg, end func()) {
	subject, waiting := a.prefix+rand.Text(), make(chan *nats.Msg, 1)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.waiting[subject] = waiting
	return subject, waiting, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.waiting, subject)
	}
}

// Ask sends the agent a request and returns its reply: ErrAway if it is not connected,
// otherwise the error that its handler returned. Without a deadline it waits 30 s, and no longer
// than until Close: then it returns net.ErrClosed, and the agent may have done what was requested.
func (s *Server) Ask(ctx context.Context, agent string, request []byte) ([]byte, error) {
	if !ValidAgent(agent) {
		return nil, fmt.Errorf("ask agent: invalid name %.100q", agent)
	}
	ctx, cancel := withDeadline(ctx)
	defer cancel()
	answer, err := s.ask(ctx, agent, request)
	if err == nil {
		err = outcome(answer.Header)
	}
	if err != nil {
		return nil, fmt.Errorf("ask agent %q: %w", agent, err)
	}
	return answer.Data, nil
}

func (s *Server) ask(ctx context.Context, agent string, request []byte) (*nats.Msg, error) {
	deadline, _ := ctx.Deadline()
	subject, answer, end := s.answers.wait()
	defer end()
	m := &nats.Msg{Subject: controlSubject(agent), Reply: subject, Data: request, Header: nats.Header{
		timeoutHeader: {formatWait(time.Until(deadline))},
	}}
	if err := s.conn.PublishMsg(m); err != nil {
		return nil, err
	}
	select {
	case m := <-answer:
		if len(m.Data) == 0 && m.Header.Get(natsStatus) == noResponders {
			return nil, ErrAway
		}
		return m, nil
	case <-s.done:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
