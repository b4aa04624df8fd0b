package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"pillion.dev/probe/source"
)

// ErrNotRunning marks a request to a probe that nobody runs.
var ErrNotRunning = errors.New("none is running")

// changeTime bounds one exchange.
const changeTime = 5 * time.Second

// changeRequest is what a running source is asked for.
type changeRequest struct {
	source.Sampling
	done chan error
}

func (r changeRequest) answer(err error) { r.done <- err }

type changeAnswer struct {
	Error string `json:"error,omitempty"`
}

// serveChanges passes requests on, one at a time, until the context ends.
func serveChanges(ctx context.Context, listener *net.UnixListener, changes chan<- changeRequest) {
	stop := context.AfterFunc(ctx, func() { listener.Close() })
	defer stop()
	for {
		connection, err := listener.AcceptUnix()
		if err != nil {
			return
		}
		err = serveChange(ctx, connection, changes)
		answer := changeAnswer{}
		if err != nil {
			answer.Error = err.Error()
		}
		_ = json.NewEncoder(connection).Encode(answer) // who went away needs no answer
		connection.Close()
	}
}

func serveChange(ctx context.Context, connection *net.UnixConn, changes chan<- changeRequest) error {
	if err := connection.SetDeadline(time.Now().Add(changeTime)); err != nil {
		return err
	}
	if err := checkUser(connection); err != nil {
		return err
	}
	request := changeRequest{done: make(chan error, 1)}
	decoder := json.NewDecoder(connection)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&request.Sampling); err != nil {
		return fmt.Errorf("read request: %w", err)
	}
	select {
	case changes <- request:
		return <-request.done
	case <-ctx.Done():
		return ErrNotRunning
	}
}

// checkUser lets in only who could have started us: an abstract socket has no
// file permissions.
func checkUser(connection *net.UnixConn) error {
	raw, err := connection.SyscallConn()
	if err != nil {
		return err
	}
	var user *unix.Ucred
	var failed error
	err = raw.Control(func(fd uintptr) {
		user, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err := errors.Join(err, failed); err != nil {
		return fmt.Errorf("learn user: %w", err)
	}
	if user.Uid != 0 && int(user.Uid) != os.Geteuid() {
		return fmt.Errorf("user %d may not change this source", user.Uid)
	}
	return nil
}

func requestChange(connection *net.UnixConn, sampling source.Sampling) error {
	if err := connection.SetDeadline(time.Now().Add(changeTime)); err != nil {
		return err
	}
	if err := json.NewEncoder(connection).Encode(sampling); err != nil {
		return fmt.Errorf("send request: %w", err)
	}
	var answer changeAnswer
	if err := json.NewDecoder(connection).Decode(&answer); err != nil {
		return fmt.Errorf("read answer: %w", err)
	}
	if answer.Error != "" {
		return fmt.Errorf("change sampling: %s", answer.Error)
	}
	return nil
}
