package iperf

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"pillion.dev/agent/report"
)

// Options of Run.
type Options struct {
	// Program is the path of iperf3; default iperf3 in $PATH.
	Program string
	Args    []string
	Report  report.Report
	// Style of the rows; default Intervals.
	Style Style
	// Device is the interface on which PerPacket captures the test's datagrams.
	Device string
	// Errors takes the standard error of iperf3.
	Errors io.Writer
}

// Result is the result of a run.
type Result struct {
	Rows int
	// Code is iperf3's exit code; 1 if it exited with 0 but reported an error.
	Code int
	// Fault is the error it reported.
	Fault string
}

// exitTimeout is how long iperf3 may take to exit after SIGINT.
const exitTimeout = 5 * time.Second

// Run runs iperf3 until it exits or the context ends: then it gets SIGINT, and its results
// so far are still reported.
func Run(ctx context.Context, o Options) (Result, error) {
	path, err := exec.LookPath(cmp.Or(o.Program, "iperf3"))
	if err != nil {
		return Result{}, fmt.Errorf("find iperf3: %w", err)
	}
	if o.Style == PerPacket { // the capture reports too
		o.Report = &shared{Report: o.Report, mu: &sync.Mutex{}}
	}
	args := slices.Clone(o.Args)
	if streams(path) {
		args = append(args, "--json-stream")
	} else {
		args = append(args, "--json")
	}
	command := strings.Join(append([]string{"iperf3"}, args...), " ")
	if err := o.Report.Note("command_line", strings.ToValidUTF8(command, "\ufffd")); err != nil {
		return Result{}, err
	}
	r := &reader{put: o.Report.Put, note: o.Report.Note, now: time.Now, style: o.Style}
	finish := func() (int, error) { return 0, nil }
	if o.Style == PerPacket {
		if finish, err = o.packets(ctx, r); err != nil {
			return Result{}, err
		}
	}
	code, err := r.run(ctx, path, args, o.Errors)
	seen, failed := finish()
	r.rows += seen
	err = errors.Join(err, failed)
	if code == 0 && r.fault != "" {
		code = 1 // with --json some versions always exit with 0
	}
	result := Result{Rows: r.rows, Code: code, Fault: r.fault}
	err = errors.Join(err, o.Report.Note("exit_code", strconv.Itoa(code)))
	if r.fault != "" {
		err = errors.Join(err, o.Report.Note("error", strings.ToValidUTF8(r.fault, "\ufffd")))
	}
	return result, err
}

// streams reports whether iperf3 supports --json-stream.
func streams(path string) bool {
	help, _ := exec.Command(path, "--help").CombinedOutput() // some versions exit with 1
	return strings.Contains(string(help), "--json-stream")
}

func (r *reader) run(ctx context.Context, path string, args []string, stderr io.Writer) (int, error) {
	own, cancel := context.WithCancel(ctx)
	defer cancel()
	cmd := exec.CommandContext(own, path, args...)
	cmd.Stderr = stderr
	// In a process group of its own, so that Ctrl-C reaches it only once, from us: a second
	// SIGINT would kill it before it has printed.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGINT) }
	cmd.WaitDelay = exitTimeout
	out, in := io.Pipe()
	cmd.Stdout = in
	if err := cmd.Start(); err != nil {
		return 1, fmt.Errorf("start iperf3: %w", err)
	}
	r.begun(cmd.Process.Pid)
	var reading sync.WaitGroup
	var readErr error
	reading.Go(func() {
		readErr = r.read(out)
		io.Copy(io.Discard, out) // so that it does not block
	})
	err := cmd.Wait()
	in.Close()
	reading.Wait()
	var exit *exec.ExitError
	switch code := cmd.ProcessState.ExitCode(); {
	case errors.As(err, &exit) && code < 0:
		return 128 + int(exit.Sys().(syscall.WaitStatus).Signal()), readErr
	case errors.As(err, &exit):
		// Invalid arguments are reported on standard error only.
		return code, readErr
	case err != nil && ctx.Err() == nil:
		return 1, errors.Join(readErr, fmt.Errorf("wait for iperf3: %w", err))
	default:
		return code, readErr
	}
}
