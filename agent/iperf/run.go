package iperf

import (
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
	// Program is iperf3; default the one that is found.
	Program string
	Args    []string
	Report  report.Report
	// Errors is where what iperf3 says on standard error goes.
	Errors io.Writer
}

// Result is what came of a run.
type Result struct {
	Rows int
	// Code is iperf3's exit code; 1 where it ended well although it complained.
	Code int
	// Fault is what it complained of.
	Fault string
}

// patience is how long iperf3 may take to end when it is interrupted.
const patience = 5 * time.Second

// Run runs iperf3 to its end, or until the context ends: then it is interrupted, and
// what it has measured is still reported.
func Run(ctx context.Context, o Options) (Result, error) {
	if o.Program == "" {
		o.Program = "iperf3"
	}
	path, err := exec.LookPath(o.Program)
	if err != nil {
		return Result{}, fmt.Errorf("find iperf3: %w", err)
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
	r := &reader{put: o.Report.Put, note: o.Report.Note, now: time.Now}
	code, err := r.run(ctx, path, args, o.Errors)
	if code == 0 && r.fault != "" {
		code = 1 // with --json some versions end with 0 whatever happened
	}
	result := Result{Rows: r.rows, Code: code, Fault: r.fault}
	err = errors.Join(err, o.Report.Note("exit_code", strconv.Itoa(code)))
	if r.fault != "" {
		err = errors.Join(err, o.Report.Note("error", strings.ToValidUTF8(r.fault, "\ufffd")))
	}
	return result, err
}

// streams asks whether it can print while it runs.
func streams(path string) bool {
	help, _ := exec.Command(path, "--help").CombinedOutput() // some versions end with 1
	return strings.Contains(string(help), "--json-stream")
}

func (r *reader) run(ctx context.Context, path string, args []string, complaints io.Writer) (int, error) {
	own, cancel := context.WithCancel(ctx)
	defer cancel()
	cmd := exec.CommandContext(own, path, args...)
	cmd.Stderr = complaints
	// Of its own group, so that Ctrl-C reaches it once, from us: twice would end it
	// before it has printed.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGINT) }
	cmd.WaitDelay = patience
	out, in := io.Pipe()
	cmd.Stdout = in
	if err := cmd.Start(); err != nil {
		return 1, fmt.Errorf("start iperf3: %w", err)
	}
	var reading sync.WaitGroup
	var readErr error
	reading.Go(func() {
		readErr = r.read(out)
		io.Copy(io.Discard, out) // so that it is not held up
	})
	err := cmd.Wait()
	in.Close()
	reading.Wait()
	var exit *exec.ExitError
	switch code := cmd.ProcessState.ExitCode(); {
	case errors.As(err, &exit) && code < 0:
		return 128 + int(exit.Sys().(syscall.WaitStatus).Signal()), readErr
	case errors.As(err, &exit):
		// One that was refused its arguments says so on standard error only.
		return code, readErr
	case err != nil && ctx.Err() == nil:
		return 1, errors.Join(readErr, fmt.Errorf("wait for iperf3: %w", err))
	default:
		return code, readErr
	}
}
