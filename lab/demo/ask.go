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

// measurement is what agents and archive say of the session.
type measurement struct {
	// Seen and Marked are the source's own counters.
	Seen, Marked uint64
	// What follows is of the archive.
	Packets, Expected, Lost, Duplicated, Reordered uint64
	MeanNs                                         float64 `json:"mean_ns"`
	P50Ns                                          float64 `json:"p50_ns"`
	P99Ns                                          float64 `json:"p99_ns"`
}

// sumsQuery counts. Quantiles come from the histograms of all rows together: their
// buckets are powers of two in 32 parts, and within one values are taken as even.
const sumsQuery = `
WITH rows AS (SELECT * FROM flows WHERE session = 'demo'),
buckets AS (SELECT unnest(delay_bounds_ns) AS low, unnest(delay_counts)::DOUBLE AS n FROM rows),
summed AS (SELECT low, sum(n) AS n FROM buckets GROUP BY low),
ranked AS (SELECT low, n, sum(n) OVER (ORDER BY low) - n AS below, sum(n) OVER () AS total,
  2 ** floor(log2(greatest(low, 1024))) / 32 AS width FROM summed)
SELECT coalesce(sum(packets), 0)::BIGINT AS packets, coalesce(sum(expected), 0)::BIGINT AS expected,
  coalesce(sum(lost), 0)::BIGINT AS lost, coalesce(sum(duplicated), 0)::BIGINT AS duplicated,
  coalesce(sum(reordered), 0)::BIGINT AS reordered,
  sum(delay_mean_ns::DOUBLE * delay_count) / sum(delay_count) AS mean_ns,
  (SELECT arg_max(low + width * (total * 0.50 - below) / n, low) FROM ranked WHERE below < total * 0.50) AS p50_ns,
  (SELECT arg_max(low + width * (total * 0.99 - below) / n, low) FROM ranked WHERE below < total * 0.99) AS p99_ns
FROM rows`

// flowsQuery is a table for people.
const flowsQuery = `SELECT proto, dst, dport, sum(packets)::BIGINT AS packets, sum(lost)::BIGINT AS lost, ` +
	`round(median(delay_p50_ns) / 1e6, 3) AS p50_ms, round(median(delay_p99_ns) / 1e6, 3) AS p99_ms ` +
	`FROM flows WHERE session = 'demo' GROUP BY ALL HAVING sum(packets) >= 100 ORDER BY packets DESC`

// measured asks until no packet is under way and source and archive account for all
// that the link saw. If that never comes, the differences will show.
func (d *demo) measured(ctx context.Context) (m measurement, truth emulator.Tally, err error) {
	var unread uint64
	waited := until(ctx, "the archive", func() (bool, error) {
		if m, err = d.ask(ctx); err != nil {
			return false, err
		}
		// Anew each time: connections end with a few packets more.
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
	text, err := d.pillion(ctx, "query", "-o", "json", sumsQuery)
	if err != nil {
		return m, err
	}
	if err := json.Unmarshal(text, &m); err != nil {
		return m, fmt.Errorf("read answer to query: %w", err)
	}
	s, err := d.session(ctx)
	for _, t := range s.Session.Tasks {
		if t.Role == "source" {
			m.Seen, m.Marked = m.Seen+t.Counters["seen"], m.Marked+t.Counters["marked"]
		}
	}
	return m, err
}

// shown is what the demonstration reads of a session.
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

// pillion runs the command line on this machine and returns what it wrote.
func (d *demo) pillion(ctx context.Context, args ...string) ([]byte, error) {
	var complaint bytes.Buffer
	command := d.command(ctx, args...)
	command.Stderr = &complaint
	text, err := command.Output()
	if err != nil {
		return text, fmt.Errorf("run pillion %s: %w: %s", args[0], err, lastLine(complaint.Bytes()))
	}
	return text, nil
}

// command is pillion with this lab's server; it finds the token by the port.
func (d *demo) command(ctx context.Context, args ...string) *exec.Cmd {
	command := exec.CommandContext(ctx, d.cli(), args...)
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "PILLION_") { // a server of the user's own
			command.Env = append(command.Env, variable)
		}
	}
	command.Env = append(command.Env, "PILLION_SERVER="+d.lab.ServiceURL(), "PILLION_TOKEN_FILE="+d.lab.TokenFile(),
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

// watching is a session watch that a person sees.
type watching struct{ command *exec.Cmd }

// watch shows the session live: a table that stays in place on a terminal, a line a
// second elsewhere.
func (d *demo) watch() (*watching, error) {
	command := d.command(context.Background(), "session", "watch", sessionName)
	command.Stdout, command.Stderr = d.out, d.out
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("watch session %s: %w", sessionName, err)
	}
	return &watching{command}, nil
}

// end ends it as a person would.
func (w *watching) end() {
	_ = w.command.Process.Signal(unix.SIGINT) // after Ctrl-C it has ended already
	_ = w.command.Wait()
}
