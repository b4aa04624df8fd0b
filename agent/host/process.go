package host

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strconv"
	"time"

	"pillion.dev/measure"
)

// NmetricsProcess is the stream of chosen processes, with the metrics of OML's nmetrics. Its counters run since the
// process started.
var NmetricsProcess = measure.Schema{Name: "nmetrics_process", Doc: "OML nmetrics: processes", Fields: []measure.Field{
	measure.TimeField,
	{Name: "pid", Type: measure.Uint32, Doc: "process ID"},
	{Name: "name", Type: measure.String, Doc: "name of the program, up to 15 bytes"},
	{Name: "state", Type: measure.String, Doc: "R running, S sleeping, D waiting for I/O, Z zombie, T stopped, I idle"},
	{Name: "ppid", Type: measure.Uint32, Doc: "process ID of the parent"},
	{Name: "threads", Type: measure.Uint32, Doc: "threads"},
	{Name: "start", Type: measure.Uint64, Unit: "ms", Doc: "start of the process after boot; with pid it identifies the process"},
	{Name: "user", Type: measure.Uint64, Unit: "ms", Doc: "user time"},
	{Name: "sys", Type: measure.Uint64, Unit: "ms", Doc: "kernel time"},
	{Name: "total", Type: measure.Uint64, Unit: "ms", Doc: "sum of both"},
	{Name: "size", Type: measure.Uint64, Unit: "bytes", Doc: "virtual memory"},
	{Name: "resident", Type: measure.Uint64, Unit: "bytes", Doc: "resident memory"},
	{Name: "minor_faults", Type: measure.Uint64, Doc: "page faults without disk access"},
	{Name: "major_faults", Type: measure.Uint64, Doc: "page faults with disk access"},
}}

// processesMax bounds the processes that are reported at a time.
const processesMax = 256

// ErrProcess marks an invalid process pattern, or a process whose state cannot be read.
var ErrProcess = errors.New("invalid process")

// ticksPerSecond is USER_HZ, which is 100 on every platform of Linux that Go supports.
const ticksPerSecond = 100

// CheckProcesses validates patterns: a process ID, or a program's name, in which * stands
// for any text.
func CheckProcesses(patterns []string) error {
	for _, pattern := range patterns {
		if _, err := path.Match(pattern, ""); err != nil || pattern == "" {
			return fmt.Errorf("%w: %q: use a process ID or a name such as iperf3 or nginx*", ErrProcess, pattern)
		}
	}
	return nil
}

// ReadNmetricsProcesses reads a sample of each process that matches a pattern, by process
// ID. Processes that end meanwhile are left out.
func ReadNmetricsProcesses(patterns []string) ([]measure.Sample, error) {
	if len(patterns) == 0 {
		return nil, nil
	}
	directory, err := os.Open("/proc")
	if err != nil {
		return nil, fmt.Errorf("read processes: %w", err)
	}
	defer directory.Close()
	names, err := directory.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("read processes: %w", err)
	}
	var found []process
	for _, name := range names {
		if name[0] < '0' || name[0] > '9' {
			continue
		}
		text, err := os.ReadFile("/proc/" + name + "/stat")
		if err != nil {
			continue // it has ended
		}
		p, err := parseProcess(text)
		if err != nil {
			return nil, fmt.Errorf("read process %s: %w", name, err)
		}
		if p.matches(patterns) {
			found = append(found, p)
		}
	}
	slices.SortFunc(found, func(a, b process) int { return cmp.Compare(a.pid, b.pid) })
	left := len(found) - processesMax
	var samples []measure.Sample
	now := measure.TimeValue(time.Now())
	for _, p := range found[:min(len(found), processesMax)] {
		samples = append(samples, p.sample(now))
	}
	if left > 0 {
		return samples, fmt.Errorf("read processes: %w: %d match, those with the %d lowest process IDs are reported: use fewer patterns", ErrProcess, len(found), processesMax)
	}
	return samples, nil
}

// process is the state of a process, in the units of the kernel.
type process struct {
	pid, ppid, threads     uint64
	name                   string
	state                  byte
	user, sys, start       uint64 // ticks
	size                   uint64 // bytes
	resident               uint64 // pages
	minorFault, majorFault uint64
}

// parseProcess parses /proc/PID/stat. The name is chosen by the process, and can contain
// any byte.
func parseProcess(text []byte) (p process, err error) {
	open, end := bytes.IndexByte(text, '('), bytes.LastIndexByte(text, ')')
	if open < 2 || end < open {
		return p, fmt.Errorf("%w: no name", ErrProcess)
	}
	words := bytes.Fields(text[end+1:])
	if len(words) < 22 || len(words[0]) != 1 {
		return p, fmt.Errorf("%w: %d values", ErrProcess, len(words))
	}
	p.name, p.state = string(bytes.ToValidUTF8(text[open+1:end], []byte("\uFFFD"))), words[0][0]
	if p.state < 'A' || p.state > 'z' {
		return p, fmt.Errorf("%w: state %q", ErrProcess, p.state)
	}
	for at, to := range map[int]*uint64{1: &p.ppid, 7: &p.minorFault, 9: &p.majorFault, 11: &p.user, 12: &p.sys, 17: &p.threads, 19: &p.start, 20: &p.size, 21: &p.resident} {
		if *to, err = strconv.ParseUint(string(words[at]), 10, 64); err != nil {
			return p, fmt.Errorf("%w: value %d: %w", ErrProcess, at+3, err)
		}
	}
	if p.pid, err = strconv.ParseUint(string(text[:open-1]), 10, 32); err != nil {
		return p, fmt.Errorf("%w: process ID: %w", ErrProcess, err)
	}
	return p, nil
}

func (p process) matches(patterns []string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		matched, _ := path.Match(pattern, p.name)
		return matched || pattern == strconv.FormatUint(p.pid, 10)
	})
}

func (p process) sample(now measure.Value) measure.Sample {
	const ms = 1000 / ticksPerSecond
	row := measure.Sample{
		now, measure.Uint32Value(uint32(p.pid)), measure.StringValue(p.name), measure.StringValue(string(rune(p.state))),
		measure.Uint32Value(uint32(p.ppid)), measure.Uint32Value(uint32(p.threads)),
	}
	for _, n := range []uint64{p.start * ms, p.user * ms, p.sys * ms, (p.user + p.sys) * ms, p.size, p.resident * uint64(os.Getpagesize()), p.minorFault, p.majorFault} {
		row = append(row, measure.Uint64Value(n))
	}
	return row
}
