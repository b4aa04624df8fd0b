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
	"pillion.dev/session"
	"pillion.dev/wire"
	"pillion.dev/wire/fivetuple"
)

// ErrNotRunning marks a request to a source that is not running.
var ErrNotRunning = errors.New("none is running")

// changeTimeout bounds one request.
const changeTimeout = 5 * time.Second

// Change is what a running source is to do differently. What is not set stays as it is.
type Change struct {
	// Filters replace the filters of the source and of its destinations; an empty text
	// matches every packet.
	Filters []string
	// Modules and Encoding are lists of names, separated by commas.
	Modules, Encoding string
	// Sampled: Sampling replaces the source's sampling.
	Sampled  bool
	Sampling wire.Sampling
}

// apply changes the settings.
func (c Change) apply(settings *source.Settings) (err error) {
	if c.Sampled {
		settings.Sampling = c.Sampling
	}
	if c.Modules != "" {
		if settings.Modules, settings.Extra, err = session.ParseModules(c.Modules); err != nil {
			return err
		}
	}
	if c.Encoding != "" {
		if settings.Encodings, err = wire.ParseEncodings(c.Encoding); err != nil {
			return err
		}
	}
	if len(c.Filters) == 0 {
		return nil
	}
	settings.Rules = nil
	for _, text := range c.Filters {
		var filter fivetuple.Filter
		if text != "" {
			if filter, err = fivetuple.ParseFilter(text); err != nil {
				return err
			}
		}
		settings.Rules = append(settings.Rules, filter)
	}
	return nil
}

// changer is what a running source offers to other processes, by net/rpc.
type changer struct {
	probe   *runner.Source
	refused error
}

// Change changes what is marked and how.
func (c *changer) Change(change Change, _ *struct{}) error {
	if c.refused != nil {
		return c.refused
	}
	return c.probe.Change(change.apply)
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
		if err := server.RegisterName(roleSource, &changer{probe, refused}); err != nil {
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

// ChangeSource changes the source that runs on the device. No packet sees half of a change.
func ChangeSource(device string, change Change) error {
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
	if err := client.Call(roleSource+".Change", change, &struct{}{}); err != nil {
		return fmt.Errorf("change source of device %q: %w", device, err)
	}
	return nil
}
