package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"pillion.dev/agent/confine"
	"pillion.dev/agent/loader"
	"pillion.dev/agent/policy"
	"pillion.dev/internal/quantity"
	"pillion.dev/measure"
	"pillion.dev/probe/hook"
)

// Unprivileged is the argument by which the program runs RunUnprivileged.
const Unprivileged = "unprivileged"

// Ended marks an unprivileged part that has ended with an error, which it has printed.
type Ended struct{ Code int }

// Error implements error.
func (e Ended) Error() string {
	return fmt.Sprintf("the unprivileged part ended with exit code %d", e.Code)
}

// setup is what the unprivileged part is told first.
type setup struct {
	Config   Config
	Token    string
	Spool    int64 // bytes, Reported of them for applications
	Reported int64
	Debug    bool
}

// stopTimeout bounds the end of the unprivileged part; the systemd unit allows 30 s.
const stopTimeout = 25 * time.Second

// Run starts the unprivileged part of the agent in a process of its own, which joins the
// server if necessary, and is its privileged part until the context ends or that process does.
// It calls ready, if set, once the server has registered the agent.
func Run(ctx context.Context, config Config, log *slog.Logger, ready func()) error {
	config, err := config.complete()
	if err != nil {
		return err
	}
	allowed, err := policy.Open(config.Policy)
	if err != nil {
		return err
	}
	if config.Folder, err = filepath.Abs(config.Folder); err != nil {
		return err
	}
	if err := checkPrivileges(); err != nil {
		return err
	}
	near, process, err := start(config)
	if err != nil {
		return err
	}
	if ready == nil {
		ready = func() {}
	}
	debug := log.Enabled(ctx, slog.LevelDebug)
	server, err := loader.NewServer(near, setup{Config: config, Token: config.JoinToken, Spool: int64(config.SpoolBytes), Reported: int64(config.OMLSpoolBytes), Debug: debug}, ready)
	if err == nil {
		err = confine.KeepNeeded()
	}
	if err != nil {
		return errors.Join(err, process.Kill(), near.Close())
	}
	options, err := config.privileged(server.Sink, allowed, log)
	if err != nil {
		return errors.Join(err, process.Kill(), near.Close())
	}
	stopped := make(chan struct{})
	defer close(stopped)
	defer context.AfterFunc(ctx, func() {
		server.Stop()
		select {
		case <-time.After(stopTimeout):
			log.Error("the unprivileged part does not end: killed", "after", stopTimeout)
			_ = process.Kill()
		case <-stopped:
		}
	})()
	err = server.Run(context.Background(), func() *loader.Loader { return loader.New(options) })
	if err != nil {
		_ = process.Kill()
	}
	return errors.Join(err, outcome(process))
}

// checkPrivileges fails for root that lacks capabilities which the probes need: a service or a
// container that is set up wrongly, and would measure nothing. Other users may run an agent that
// only relays reports of applications.
func checkPrivileges() error {
	if os.Geteuid() != 0 {
		return nil
	}
	held, err := hook.Capabilities()
	if err != nil {
		return err
	}
	if lacking := hook.Lacking(held); len(lacking) > 0 {
		return fmt.Errorf("load BPF programs: %w: %s", confine.ErrCapability, strings.Join(lacking, ", "))
	}
	return nil
}

// start starts the unprivileged part and returns the connection to it.
func start(config Config) (net.Conn, *confine.Process, error) {
	user, err := confine.Choose(config.User, config.Folder)
	if err != nil {
		return nil, nil, err
	}
	if err := confine.Give(config.Folder, user, "identity.json", "identity.next.json", "spool", "spool-applications"); err != nil {
		return nil, nil, err
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("connect the parts of the agent: %w", err)
	}
	mine, other := os.NewFile(uintptr(pair[0]), "link"), os.NewFile(uintptr(pair[1]), "link")
	defer mine.Close()
	defer other.Close()
	near, err := net.FileConn(mine)
	if err != nil {
		return nil, nil, fmt.Errorf("connect the parts of the agent: %w", err)
	}
	command := exec.Command("/proc/self/exe", Unprivileged)
	command.Args[0] = os.Args[0]
	command.Stderr = os.Stderr
	command.ExtraFiles = []*os.File{other}
	command.Env = slices.DeleteFunc(os.Environ(), func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		return slices.Contains([]string{"PILLION_JOIN_TOKEN", "NOTIFY_SOCKET", "PWD"}, name)
	})
	process, err := confine.Start(command, confine.Options{User: user, Folder: config.Folder, Ports: config.ports()})
	if err != nil {
		return nil, nil, errors.Join(err, near.Close())
	}
	return near, process, nil
}

// ports are those that the unprivileged part listens on.
func (c Config) ports() []uint16 {
	_, text, err := net.SplitHostPort(c.OML)
	port, err2 := strconv.ParseUint(text, 10, 16)
	if c.OML == omlOff || err != nil || err2 != nil {
		return nil
	}
	return []uint16{uint16(port)}
}

// outcome waits for the end of the unprivileged part.
func outcome(process *confine.Process) error {
	err := process.Err()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.Exited() {
		return Ended{exit.ExitCode()}
	}
	if err != nil {
		return fmt.Errorf("unprivileged part: %w", err)
	}
	return nil
}

// RunUnprivileged is the unprivileged part, at the other end of the connection, until that is
// closed or the privileged part asks it to end. Logger returns the log.
func RunUnprivileged(ctx context.Context, conn net.Conn, logger func(debug bool) *slog.Logger) error {
	var told setup
	ctx, cancel := context.WithCancel(ctx) // without the other part there is nothing to do
	defer cancel()
	remote, err := loader.Connect(conn, &told, cancel)
	if err != nil {
		return err
	}
	config := told.Config
	config.JoinToken, config.SpoolBytes, config.Folder = told.Token, quantity.Size(told.Spool), reachable(config.Folder)
	config.OMLSpoolBytes = quantity.Size(told.Reported)
	err = run(ctx, config, logger(told.Debug), remote.Ready, func(s *service) (privileged, error) {
		inject := func(point string, sample measure.Sample) { s.streams.inject(&measure.Schema{Name: point}, sample) }
		return remote, remote.Start(inject)
	})
	return errors.Join(err, remote.Disconnect())
}

// reachable is the folder, which is the working directory, by a path that this user can use.
func reachable(folder string) string {
	here, err := os.Stat(".")
	if there, err2 := os.Stat(folder); err != nil || err2 != nil || !os.SameFile(here, there) {
		return "."
	}
	return folder
}
