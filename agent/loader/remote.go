package loader

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"pillion.dev/agent/runner"
	"pillion.dev/measure"
)

// Remote is a Loader in another process, as the unprivileged end of the link sees it.
type Remote struct {
	link *link
	stop func() // called when the agent is to end

	mu      sync.Mutex
	sink    func(point string, sample measure.Sample) // takes the rows; nil before Start
	last    uint64                                    // number of a request
	waiting map[uint64]chan<- answer
	ended   error
}

type answer struct {
	reply []byte
	err   error
}

// Connect reads the setup. The Remote calls stop when the agent is to end, or the link is closed,
// also before Start.
func Connect(conn net.Conn, setup any, stop func()) (*Remote, error) {
	r := &Remote{link: newLink(conn), stop: stop, waiting: map[uint64]chan<- answer{}}
	k, _, text, err := r.link.receive(messageMax, nil)
	if err == nil && k != kindSetup {
		err = fmt.Errorf("message of kind %d instead of the setup", k)
	}
	if err == nil {
		err = json.Unmarshal(text, setup)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("read setup: %w", err), r.link.close())
	}
	go r.run()
	return r, nil
}

// Start starts the Loader, and passes its rows to the sink.
func (r *Remote) Start(sink func(point string, sample measure.Sample)) error {
	r.mu.Lock()
	r.sink = sink
	r.mu.Unlock()
	return r.link.send(kindStart, 0, nil)
}

func (r *Remote) run() {
	err := r.receive()
	r.mu.Lock()
	r.ended = fmt.Errorf("privileged part: %w", err)
	for _, waiting := range r.waiting {
		waiting <- answer{err: r.ended}
	}
	clear(r.waiting)
	r.mu.Unlock()
	r.stop()
}

func (r *Remote) receive() error {
	var memory []byte
	var sample measure.Sample
	for {
		k, number, content, err := r.link.receive(messageMax, memory)
		if errors.Is(err, net.ErrClosed) || errors.Is(err, io.EOF) {
			return errClosed
		}
		if err != nil {
			return err
		}
		switch k {
		case kindRow:
			memory = content[:0]
			point, row, err := parseRow(content, sample)
			if err != nil {
				return err
			}
			sample = row
			r.mu.Lock()
			sink := r.sink
			r.mu.Unlock()
			sink(point, row)
		case kindReply:
			memory = nil
			r.answered(number, answer{reply: content})
		case kindFailure:
			r.answered(number, answer{err: errors.New(string(content))})
		case kindStop:
			r.stop()
		default:
			return fmt.Errorf("message of unknown kind %d", k)
		}
	}
}

func (r *Remote) answered(number uint64, a answer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if waiting := r.waiting[number]; waiting != nil {
		waiting <- a
		delete(r.waiting, number)
	}
}

// ask sends a request and waits for the answer.
func (r *Remote) ask(ctx context.Context, k kind, content []byte) ([]byte, error) {
	waiting := make(chan answer, 1)
	r.mu.Lock()
	if r.ended != nil {
		r.mu.Unlock()
		return nil, r.ended
	}
	r.last++
	number := r.last
	r.waiting[number] = waiting
	r.mu.Unlock()
	if err := r.link.send(k, number, content); err != nil {
		return nil, err
	}
	select {
	case a := <-waiting:
		return a.reply, a.err
	case <-ctx.Done():
		r.mu.Lock()
		delete(r.waiting, number)
		r.mu.Unlock()
		return nil, ctx.Err()
	}
}

// Serve is Loader.Serve.
func (r *Remote) Serve(ctx context.Context, text []byte) ([]byte, error) {
	if len(text) > requestMax {
		return nil, fmt.Errorf("%w: %d bytes, limit %d", ErrRequest, len(text), requestMax)
	}
	return r.ask(ctx, kindRequest, text)
}

// Pulse is Loader.Pulse.
func (r *Remote) Pulse(text []byte) {
	if len(text) <= requestMax {
		_ = r.link.send(kindPulse, 0, text)
	}
}

// Tell is Loader.Tell.
func (r *Remote) Tell(self runner.Self) {
	if text, err := json.Marshal(self); err == nil && len(text) <= requestMax {
		_ = r.link.send(kindSelf, 0, text)
	}
}

// Ready reports that the server has registered the agent.
func (r *Remote) Ready() { _ = r.link.send(kindReady, 0, nil) }

// statusTimeout allows for a source that waits for its paths to be tested.
const statusTimeout = 10 * time.Second

// Status is Loader.Status.
func (r *Remote) Status() (status Status, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), statusTimeout)
	defer cancel()
	text, err := r.ask(ctx, kindStatus, nil)
	if err == nil {
		err = json.Unmarshal(text, &status)
	}
	if err != nil {
		return status, fmt.Errorf("read status of the privileged part: %w", err)
	}
	return status, nil
}

// Token is Loader.Token.
func (r *Remote) Token() ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), statusTimeout)
	defer cancel()
	return r.ask(ctx, kindToken, nil)
}

// closeTimeout bounds the wait for the last rows.
const closeTimeout = 15 * time.Second

// Close is Loader.Close.
func (r *Remote) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	_, err := r.ask(ctx, kindClose, nil)
	if errors.Is(err, errClosed) {
		return nil
	}
	return err
}

// Disconnect closes the link.
func (r *Remote) Disconnect() error { return r.link.close() }
