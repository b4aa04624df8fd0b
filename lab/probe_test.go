package lab_test

import (
	"bufio"
	"encoding/json"
	"io"
	"os/exec"
	"slices"
	"sync"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// sourceSummary and destinationSummary are the final output of the probes.
type sourceSummary struct {
	Seen       uint64            `json:"seen"`
	Marked     uint64            `json:"marked"`
	Counted    uint64            `json:"counted"`
	Skipped    map[string]uint64 `json:"skipped"`
	MSSClamped uint64            `json:"mss_clamped"`

	Connections struct {
		Marked      uint64 `json:"marked"`
		Paused      uint64 `json:"paused"`
		Stopped     uint64 `json:"stopped"`
		WithoutAcks uint64 `json:"without_acks"`
		Avoided     uint64 `json:"avoided"`
		Full        uint64 `json:"full"`
		Limit       string `json:"limit"`
	} `json:"connections"`
}

type probeDelay struct {
	Count uint64 `json:"count"`
	Min   int64  `json:"min"`
	P50   int64  `json:"p50"`
}

type probeCounts struct {
	Packets    uint64     `json:"packets"`
	Expected   uint64     `json:"expected"`
	Lost       uint64     `json:"lost"`
	Duplicated uint64     `json:"duplicated"`
	Reordered  uint64     `json:"reordered"`
	Late       uint64     `json:"late"`
	Unchecked  uint64     `json:"unchecked"`
	Restarts   uint64     `json:"restarts"`
	Delay      probeDelay `json:"delay_ns"`
}

type destinationSummary struct {
	probeCounts
	Seen           uint64 `json:"seen"`
	Counted        uint64 `json:"counted"`
	Unmarked       uint64 `json:"unmarked"`
	Rejected       uint64 `json:"rejected"`
	Restored       uint64 `json:"restored"`
	Kept           uint64 `json:"kept"`
	Unrestored     uint64 `json:"unrestored"`
	FlowsFull      uint64 `json:"flows_full"`
	Contended      uint64 `json:"contended"`
	Records        uint64 `json:"records"`
	RecordsDropped uint64 `json:"records_dropped"`
	Traces         struct {
		Read, Dropped, Malformed uint64
	} `json:"traces"`
}

// flowRow is one line of a destination.
type flowRow struct {
	Src      string `json:"src"`
	Dst      string `json:"dst"`
	Protocol string `json:"proto"`
	Sport    uint16 `json:"sport"`
	Dport    uint16 `json:"dport"`
	probeCounts
}

// validated is the argument of a source that validates paths.
const validated = "--path-validation=auto"

// pathLine is what a source has found about a path.
type pathLine struct {
	Address  string `json:"address"`
	Encoding string `json:"encoding"`
	State    string `json:"state"`
	MTU      int    `json:"mtu"`
}

// hopLine is what a destination has read about a hop in an interval.
type hopLine struct {
	Src, Path, Node, Previous string
	Hop                       int
	Packets                   uint64
	Delay                     struct {
		Count               uint64
		Min, Mean, P50, Max int64
	} `json:"delay_ns"`
	Uncertainty int64 `json:"uncertainty_ns"`
}

// runningProbe is a pillion-agent source or destination in a host.
type runningProbe struct {
	t       testing.TB
	command *exec.Cmd
	ended   chan struct{} // closed when all output was read

	mutex   sync.Mutex
	ready   bool
	rows    []flowRow
	hops    []hopLine
	rounds  []roundLine
	paths   map[string]pathLine // by encoding
	blocks  []blockLine
	summary json.RawMessage
}

// probe starts a source or destination with --json and waits until it is attached. It is
// stopped at the end of the test at the latest. Unless the arguments ask for path
// validation a source marks from its first packet on.
func (b *bed) probe(host, role, device string, args ...string) *runningProbe {
	b.t.Helper()
	if role == "source" && !slices.Contains(args, validated) {
		args = append(args, "--path-validation=off")
	}
	p := &runningProbe{t: b.t, ended: make(chan struct{}), paths: map[string]pathLine{}}
	p.command = exec.Command(agentPath, append([]string{role, "--dev", device, "--json"}, args...)...)
	p.command.Stderr = b.t.Output()
	output, err := p.command.StdoutPipe()
	if err != nil {
		b.t.Fatal(err)
	}
	if err := b.Start(host, p.command); err != nil {
		b.t.Fatal(err)
	}
	go p.read(output)
	b.t.Cleanup(func() { p.end(unix.SIGKILL) })
	eventually(b.t, role+" on "+device+" of "+host, func() bool {
		p.mutex.Lock()
		defer p.mutex.Unlock()
		return p.ready || p.gone()
	})
	if p.gone() {
		b.t.Fatalf("%s on %s of %s exited immediately", role, device, host)
	}
	return p
}

func (p *runningProbe) read(output io.Reader) {
	defer close(p.ended)
	lines := bufio.NewScanner(output)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var line struct {
			Ready   json.RawMessage `json:"ready"`
			Summary json.RawMessage `json:"summary"`
			Path    *pathLine       `json:"path"`
			Hop     *hopLine        `json:"hop"`
			Round   *roundLine      `json:"round_trip"`
			Block   *blockLine      `json:"block"`
			flowRow
		}
		err := json.Unmarshal(lines.Bytes(), &line)
		p.mutex.Lock()
		switch {
		case err != nil:
			p.t.Errorf("line %q: %v", lines.Text(), err)
		case line.Ready != nil:
			p.ready = true
		case line.Summary != nil:
			p.summary = line.Summary
		case line.Round != nil:
			p.rounds = append(p.rounds, *line.Round)
		case line.Path != nil:
			p.paths[line.Path.Encoding] = *line.Path
		case line.Hop != nil:
			p.hops = append(p.hops, *line.Hop)
		case line.Block != nil:
			p.blocks = append(p.blocks, *line.Block)
		default:
			p.rows = append(p.rows, line.flowRow)
		}
		p.mutex.Unlock()
	}
}

func (p *runningProbe) gone() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// end sends a signal and waits; it returns the exit code, -1 if killed.
func (p *runningProbe) end(signal unix.Signal) int {
	if p.command.ProcessState == nil {
		_ = p.command.Process.Signal(signal)
		<-p.ended
		_ = p.command.Wait()
	}
	return p.command.ProcessState.ExitCode()
}

// finish interrupts the probe and reads its summary into s.
func (p *runningProbe) finish(s any) {
	p.t.Helper()
	if code := p.end(unix.SIGINT); code != 0 {
		p.t.Errorf("%v: exit code %d", p.command.Args[1:], code)
	}
	if err := json.Unmarshal(p.summary, s); err != nil {
		p.t.Fatalf("%v: summary %q: %v", p.command.Args[1:], p.summary, err)
	}
}

// path is what the source last reported about the path that uses the encoding.
func (p *runningProbe) path(encoding string) pathLine {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.paths[encoding]
}

// seen sums the rows so far.
func (p *runningProbe) seen() probeCounts {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	var sum probeCounts
	for _, r := range p.rows {
		sum.Packets += r.Packets
		sum.Expected += r.Expected
		sum.Lost += r.Lost
		sum.Duplicated += r.Duplicated
		sum.Reordered += r.Reordered
		sum.Late += r.Late
	}
	return sum
}

// both stops the source, then the destination, and returns their summaries.
func both(s, d *runningProbe) (marked sourceSummary, read destinationSummary) {
	s.t.Helper()
	s.finish(&marked)
	d.finish(&read)
	return marked, read
}

// indexOf finds a device in the namespace of the calling thread.
func indexOf(device string) (int, error) {
	found, err := netlink.LinkByName(device)
	if err != nil {
		return 0, err
	}
	return found.Attrs().Index, nil
}
