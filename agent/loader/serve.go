package loader

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"

	"pillion.dev/agent/host"
	"pillion.dev/agent/runner"
	"pillion.dev/measure"
)

// concurrentRequests bounds the requests from the server that are carried out at the same time, and concurrentOwn
// the requests of the unprivileged process itself. Further requests fail, so that the
// server's heartbeats (session.Pulse) never wait behind them.
const (
	concurrentRequests = 16
	concurrentOwn      = 4
)

var errNotStarted = errors.New("not started")

var errBusy = errors.New("too many requests at the same time")

// Server is the privileged end of a link. The unprivileged process at the other end is not trusted: it can
// only make the Loader do what the Loader's options and the host's policy allow.
type Server struct {
	link          *link
	requests, own chan struct{} // each task in progress takes one slot of its channel
	tasks         sync.WaitGroup
	loader        *Loader // nil until the other end accepts rows (kindStart)
	// ready is called once the agent has been registered by its server.
	ready func()
	once  sync.Once
}

// NewServer sends the setup to the other end, as JSON; this package does not interpret it.
func NewServer(conn net.Conn, setup any, ready func()) (*Server, error) {
	text, err := json.Marshal(setup)
	if err != nil {
		return nil, fmt.Errorf("encode setup: %w", err)
	}
	s := &Server{link: newLink(conn), requests: make(chan struct{}, concurrentRequests), own: make(chan struct{}, concurrentOwn), ready: ready}
	return s, s.link.send(kindSetup, 0, text)
}

// Sink sends rows to the other end. It waits up to stallMax while the other end does not read; then the link is
// closed.
func (s *Server) Sink(schema *measure.Schema, sample measure.Sample) {
	_ = s.link.sendRow(schema.Name, sample) // a link that is closed ends the agent
}

// Stop asks the other end to close the Loader and to end.
func (s *Server) Stop() { _ = s.link.send(kindStop, 0, nil) }

// Run opens the Loader when the other end accepts rows, and serves its requests until it closes
// the link. Run then returns nil. The Loader is closed when Run returns.
func (s *Server) Run(ctx context.Context, open func() *Loader) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	err := s.carryOut(ctx, open)
	cancel()
	s.tasks.Wait()
	if s.loader != nil {
		err = errors.Join(err, s.loader.Close())
	}
	if closed := s.link.close(); err == nil && !errors.Is(closed, net.ErrClosed) {
		err = closed
	}
	if err != nil {
		return fmt.Errorf("serve the unprivileged part: %w", err)
	}
	return nil
}

func (s *Server) carryOut(ctx context.Context, open func() *Loader) error {
	for {
		k, number, content, err := s.link.receive(requestMax, nil)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		l := s.loader
		if l == nil && k != kindStart {
			_ = s.link.send(kindFailure, number, []byte(errNotStarted.Error()))
			continue
		}
		switch k {
		case kindStart:
			if l == nil {
				s.loader = open()
			}
		case kindRequest:
			s.answer(s.requests, number, func() ([]byte, error) { return l.Serve(ctx, content) })
		case kindStatus:
			s.answer(s.own, number, func() ([]byte, error) { return status(l) })
		case kindToken:
			s.answer(s.own, number, l.Token)
		case kindClose:
			s.answer(s.own, number, func() ([]byte, error) { return nil, l.Close() })
		case kindPulse:
			l.Pulse(content)
		case kindSelf:
			var self runner.Self
			if err := json.Unmarshal(content, &self); err != nil {
				return fmt.Errorf("read what the unprivileged part knows: %w", err)
			}
			l.Tell(self)
		case kindReady:
			s.once.Do(s.ready)
		default:
			return fmt.Errorf("message of unknown kind %d", k)
		}
	}
}

func (s *Server) answer(slots chan struct{}, number uint64, carryOut func() ([]byte, error)) {
	select {
	case slots <- struct{}{}:
	default:
		_ = s.link.send(kindFailure, number, []byte(errBusy.Error()))
		return
	}
	s.tasks.Go(func() {
		defer func() { <-slots }()
		k := kindReply
		reply, err := carryOut()
		if err != nil {
			k, reply = kindFailure, []byte(err.Error())
		}
		_ = s.link.send(k, number, reply) // a link that is closed ends the agent
	})
}

func status(l *Loader) ([]byte, error) {
	status, err := l.Status()
	if err != nil {
		return nil, err
	}
	usage, err := host.ReadUsage()
	if err != nil {
		return nil, err
	}
	status.Usage = &usage
	return json.Marshal(status)
}
