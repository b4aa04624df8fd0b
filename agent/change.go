package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/rpc"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"pillion.dev/agent/runner"
	"pillion.dev/probe/hook"
	"pillion.dev/probe/source"
)

// ErrNotRunning marks a request to a source that is not running.
var ErrNotRunning = errors.New("none is running")

// changeTimeout bounds one request.
const changeTimeout = 5 * time.Second

// sampler is what a running source offers to other processes, by net/rpc.
type sampler struct {
	probe   *runner.Source
	refused error
}

// Sample changes the sampling.
func (s *sampler) Sample(sampling source.Sampling, _ *struct{}) error {
	if s.refused != nil {
		return s.refused
	}
	return s.probe.Sample(sampling)
}

// serveChanges serves requests, one at a time, until the context ends.
func serveChanges(ctx context.Context, probe *runner.Source) {
	listener := probe.Listener()
	defer context.AfterFunc(ctx, func() { listener.Close() })()
	for {
		connection, err := listener.AcceptUnix()
		if err != nil {
			return
		}
		refused := errors.Join(connection.SetDeadline(time.Now().Add(changeTimeout)), checkUser(connection))
		server := rpc.NewServer()
		if err := server.RegisterName(roleSource, &sampler{probe, refused}); err != nil {
			panic(err) // the method's signature is wrong
		}
		server.ServeConn(connection)
	}
}

// checkUser accepts root and the user of this process, whoever else can open the socket.
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
		return fmt.Errorf("read credentials of peer: %w", err)
	}
	if user.Uid != 0 && int(user.Uid) != os.Geteuid() {
		return fmt.Errorf("user %d may not change this source", user.Uid)
	}
	return nil
}

// ChangeSampling changes the sampling of the source that runs on the device.
func ChangeSampling(device string, sampling source.Sampling) error {
	d, err := hook.Find(device)
	if err != nil {
		return err
	}
	address, err := hook.Address(roleSource, d)
	if err != nil {
		return err
	}
	connection, err := net.DialUnix("unix", nil, address)
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("reach source of device %q: %w", device, err)
	}
	if err != nil {
		return fmt.Errorf("reach source of device %q: %w: %w", device, ErrNotRunning, err)
	}
	if err := connection.SetDeadline(time.Now().Add(changeTimeout)); err != nil {
		return err
	}
	client := rpc.NewClient(connection)
	defer client.Close()
	if err := client.Call(roleSource+".Sample", sampling, &struct{}{}); err != nil {
		return fmt.Errorf("change sampling: %w", err)
	}
	return nil
}
