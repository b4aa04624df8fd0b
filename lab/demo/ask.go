package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"pillion.dev/lab/emulator"
)

// measurement is what agents and server report about the session.
type measurement struct {
	// Seen and Marked are the source's own counters.
	Seen, Marked uint64
	// flow is the sum of all marked packets at the server.
	flow
}

// flow is the sum of the rows of one flow, as pillion flows prints it. Delays are null
// before the first packet.
type flow struct {
	Packets, Expected, Lost, Duplicated, Reordered uint64
	Delay                                          struct {
		MeanNs float64 `json:"mean_ns"`
		P50Ns  float64 `json:"p50_ns"`
		P99Ns  float64 `json:"p99_ns"`
	}
}

// measured polls until no packet is in flight and source and archive account for all
// packets of the link. On a timeout, the comparison shows the differences.
func (d *demo) measured(ctx context.Context) (m measurement, truth emulator.Tally, err error) {
	var unread uint64
	waited := until(ctx, "the archive", func() (bool, error) {
		if m, err = d.ask(ctx); err != nil {
			return false, err
		}
		// Read each time: closing connections sends a few more packets.
		if truth, unread, err = d.truth(ctx); err != nil {
			return false, err
		}
		return truth.InFlight == 0 && m.Expected == truth.Offered && m.Marked == truth.Offered && m.Packets == truth.Delivered+truth.Duplicated, nil
	})
	if errors.Is(waited, context.DeadlineExceeded) && ctx.Err() == nil {
		waited = nil
	}
	if unread != 0 {
		fmt.Fprintf(d.out, "note: this machine was too busy: %d packets were lost before the emulator saw them\n", unread)
	}
	return m, truth, waited
}

func (d *demo) ask(ctx context.Context) (measurement, error) {
	var m measurement
	text, err := d.pillion(ctx, "flows", "--session", sessionName, "--by", "pair", "-o", "json")
	if err != nil {
		return m, err
	}
	var pairs []struct{ Total flow }
	if err := json.Unmarshal(text, &pairs); err != nil {
		return m, fmt.Errorf("read flows: %w", err)
	}
	if len(pairs) > 0 {
		m.flow = pairs[0].Total
	}
	s, err := d.session(ctx)
	for _, t := range s.Session.Tasks {
		if t.Role == "source" {
			m.Seen, m.Marked = m.Seen+t.Counters["seen"], m.Marked+t.Counters["marked"]
		}
	}
	return m, err
}

// shown is the part of a session that the demonstration reads.
type shown struct {
	Session struct {
		State string
		Tasks []struct {
			Role     string
			Counters map[string]uint64
		}
	}
}

func (d *demo) session(ctx context.Context) (shown, error) {
	var s shown
	text, err := d.pillion(ctx, "session", "show", sessionName, "-o", "json")
	if err != nil {
		return s, err
	}
	if err := json.Unmarshal(text, &s); err != nil {
		return s, fmt.Errorf("read session: %w", err)
	}
	return s, nil
}

// running waits until the source marks.
func (d *demo) running(ctx context.Context) error {
	return until(ctx, "session "+sessionName+" to run", func() (bool, error) {
		s, err := d.session(ctx)
		return s.Session.State == "running", err
	})
}

// pillion runs the CLI on this machine and returns its standard output.
func (d *demo) pillion(ctx context.Context, args ...string) ([]byte, error) {
	var failure bytes.Buffer
	command := d.command(ctx, args...)
	command.Stderr = &failure
	text, err := command.Output()
	if err != nil {
		return text, fmt.Errorf("run pillion %s: %w: %s", args[0], err, lastLine(failure.Bytes()))
	}
	return text, nil
}

// command is pillion with this lab's server; it finds the token by the port.
func (d *demo) command(ctx context.Context, args ...string) *exec.Cmd {
	command := exec.CommandContext(ctx, d.cli(), args...)
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "PILLION_") { // settings for the user's server
			command.Env = append(command.Env, variable)
		}
	}
	command.Env = append(command.Env, "PILLION_SERVER="+strings.TrimPrefix(d.lab.ServiceURL(), "http://"), // a token goes over TLS
		"PILLION_TOKEN_FILE="+d.lab.TokenFile(),
		"PILLION_CONFIG="+os.DevNull)
	return command
}

func (d *demo) cli() string {
	agent := d.options.Agent
	if resolved, err := filepath.EvalSymlinks(agent); err == nil {
		agent = resolved
	}
	return filepath.Join(filepath.Dir(agent), "pillion")
}

// watching is a running session watch.
type watching struct{ command *exec.Cmd }

// watch shows the session live: as a table updated in place on a terminal, otherwise as
// a line per second.
func (d *demo) watch() (*watching, error) {
	command := d.command(context.Background(), "session", "watch", sessionName)
	command.Stdout, command.Stderr = d.out, d.out
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("watch session %s: %w", sessionName, err)
	}
	return &watching{command}, nil
}

// end interrupts it, as a user would.
func (w *watching) end() {
	_ = w.command.Process.Signal(unix.SIGINT) // after Ctrl-C it has ended already
	_ = w.command.Wait()
}
