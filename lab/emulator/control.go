package emulator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"time"
)

// request is a client's request to a running emulator, one JSON object per connection.
// The answer is sent once the truth file is up to date: it includes every packet that was
// sent before the request.
type request struct {
	From   string  `json:"from,omitempty"` // a host, or "" for both directions
	Change *Change `json:"change,omitempty"`
}

type answer struct {
	Error string `json:"error,omitempty"`
}

// ErrRefused marks changes that a running emulator rejected.
var ErrRefused = errors.New("change refused")

type refusal string

func (r refusal) Error() string { return string(r) }

func (r refusal) Is(target error) bool { return target == ErrRefused }

const controlTimeout = 30 * time.Second

// control serves requests on a Unix socket.
type control struct{ listener net.Listener }

func listen(path string, e *emulator) (*control, error) {
	listener, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("listen for changes: %w", err)
	}
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			go e.serve(connection)
		}
	}()
	return &control{listener}, nil
}

func (c *control) close() { c.listener.Close() }

func (e *emulator) serve(connection net.Conn) {
	defer connection.Close()
	ctx, cancel := context.WithTimeout(context.Background(), controlTimeout)
	defer cancel()
	deadline, _ := ctx.Deadline()
	_ = connection.SetDeadline(deadline)
	var asked request
	var reply answer
	err := json.NewDecoder(connection).Decode(&asked)
	if err == nil {
		err = e.answer(ctx, asked)
	}
	if err != nil {
		reply.Error = err.Error()
	}
	_ = json.NewEncoder(connection).Encode(reply)
}

func (e *emulator) answer(ctx context.Context, asked request) error {
	for _, d := range e.directions {
		if err := d.drain(ctx); err != nil {
			return err
		}
	}
	if asked.Change != nil {
		if err := e.change(asked.From, *asked.Change); err != nil {
			return err
		}
	}
	return e.writeTruth(false)
}

// change sets faults in the selected directions, in all of them or in none.
func (e *emulator) change(from string, c Change) error {
	var chosen []*direction
	for _, d := range e.directions {
		if from != "" && from != d.from.Host {
			continue
		}
		if err := d.change(c, true); err != nil {
			return fmt.Errorf("change link %s from %s: %w", e.config.Link, d.from.Host, err)
		}
		chosen = append(chosen, d)
	}
	for _, d := range chosen {
		if err := d.change(c, false); err != nil {
			return err
		}
	}
	if chosen == nil {
		return fmt.Errorf("change link %s: no end %q", e.config.Link, from)
	}
	return nil
}

// Apply changes the faults of the running emulator behind socket, for what the
// host from sends or, if from is empty, in both directions. Packets already in flight are
// not affected.
func Apply(ctx context.Context, socket, from string, change Change) error {
	return ask(ctx, socket, request{From: from, Change: &change})
}

// Refresh makes the running emulator behind socket write its truth now.
func Refresh(ctx context.Context, socket string) error { return ask(ctx, socket, request{}) }

func ask(ctx context.Context, socket string, asked request) error {
	ctx, cancel := context.WithTimeout(ctx, controlTimeout)
	defer cancel()
	connection, err := new(net.Dialer).DialContext(ctx, "unix", socket)
	if err != nil {
		return fmt.Errorf("ask emulator: %w", err)
	}
	defer connection.Close()
	deadline, _ := ctx.Deadline()
	_ = connection.SetDeadline(deadline)
	if err := json.NewEncoder(connection).Encode(asked); err != nil {
		return fmt.Errorf("ask emulator: %w", err)
	}
	var reply answer
	if err := json.NewDecoder(connection).Decode(&reply); err != nil {
		return fmt.Errorf("ask emulator: %w", err)
	}
	if reply.Error != "" {
		return refusal(reply.Error)
	}
	return nil
}
