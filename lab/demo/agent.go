package demo

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"time"

	"golang.org/x/sys/unix"
)

// process is a pillion-agent that measures in a host.
type process struct {
	command *exec.Cmd
	lines   chan line
	summary chan json.RawMessage
}

// line is what the demonstration reads of an agent's output.
type line struct {
	Ready   json.RawMessage `json:"ready"`
	Summary json.RawMessage `json:"summary"`
	row
}

// row is one flow in one interval.
type row struct {
	Time    time.Time `json:"time"`
	Src     string    `json:"src"`
	Dst     string    `json:"dst"`
	Proto   string    `json:"proto"`
	Dport   int       `json:"dport"`
	Packets uint64    `json:"packets"`
	Lost    uint64    `json:"lost"`
	Delay   struct {
		P50 int64 `json:"p50"`
		P99 int64 `json:"p99"`
	} `json:"delay_ns"`
}

// startAgent returns when the agent is attached.
func (d *demo) startAgent(ctx context.Context, host string, args ...string) (*process, error) {
	command := exec.Command(d.options.Agent, append(args, "--json")...)
	output, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	complaint := &firstLine{}
	command.Stderr = complaint
	if err := d.lab.Start(host, command); err != nil {
		return nil, fmt.Errorf("start %s: %w", args[0], err)
	}
	p := &process{command: command, lines: make(chan line, 1024), summary: make(chan json.RawMessage, 1)}
	ready := make(chan bool, 1)
	go p.read(output, ready)
	select {
	case ok := <-ready:
		if ok {
			return p, nil
		}
		p.kill()
		return nil, fmt.Errorf("start %s: %s", args[0], complaint)
	case <-ctx.Done():
		p.kill()
		return nil, ctx.Err()
	}
}

func (p *process) read(output io.Reader, ready chan<- bool) {
	defer close(p.lines)
	defer close(p.summary)
	defer func() { ready <- false }()
	decoder := json.NewDecoder(bufio.NewReader(output))
	for {
		var l line
		if err := decoder.Decode(&l); err != nil {
			return
		}
		switch {
		case l.Ready != nil:
			ready <- true
			ready = make(chan bool, 1)
		case l.Summary != nil:
			p.summary <- l.Summary
		default:
			select {
			case p.lines <- l:
			default: // the screen is slower than the measurement
			}
		}
	}
}

// finish ends the agent as a person would and reads its summary.
func (p *process) finish(summary any) error {
	if err := p.command.Process.Signal(unix.SIGINT); err != nil {
		return fmt.Errorf("end agent: %w", err)
	}
	raw, ok := <-p.summary
	if !ok {
		return errors.New("end agent: it gave no summary")
	}
	if err := json.Unmarshal(raw, summary); err != nil {
		return fmt.Errorf("read summary: %w", err)
	}
	return p.command.Wait()
}

func (p *process) kill() {
	_ = p.command.Process.Signal(unix.SIGINT) // most often it has ended already
	_ = p.command.Wait()
}

// show prints rows as they come.
func (p *process) show(out io.Writer) {
	var shown time.Time
	for l := range p.lines {
		if l.Packets < 100 {
			continue // control connections
		}
		if !l.Time.Equal(shown) {
			shown = l.Time
			fmt.Fprintf(out, "%s  %-24s %9s %6s %12s %12s\n", shown.Local().Format(time.TimeOnly),
				"flow to", "packets", "lost", "delay p50", "delay p99")
		}
		fmt.Fprintf(out, "          %-4s %-19s %9d %6d %12s %12s\n", l.Proto, end(l.Dst, l.Dport),
			l.Packets, l.Lost, milliseconds(l.Delay.P50), milliseconds(l.Delay.P99))
	}
}

// firstLine keeps the first line of what is written to it.
type firstLine struct{ text []byte }

// Write keeps what comes up to the first line's end.
func (f *firstLine) Write(b []byte) (int, error) {
	for _, c := range b {
		if len(f.text) > 0 && f.text[len(f.text)-1] == '\n' {
			break
		}
		f.text = append(f.text, c)
	}
	return len(b), nil
}

func (f *firstLine) String() string { return string(f.text) }
