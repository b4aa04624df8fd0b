package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// outcome is a cell with all its pairs.
type outcome struct {
	cell  cell
	pairs []pair
}

// spread summarises several pairs: the median and the extremes.
type spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

func (s spread) String() string { return fmt.Sprintf("%.3f [%.3f..%.3f]", s.Median, s.Min, s.Max) }

// cellReport is a cell in the results file: every raw value, and the statistics. Ratios are
// computed pair by pair, so their median need not be the ratio of the two median rates.
type cellReport struct {
	Modules    string `json:"modules"`
	Every      int    `json:"every"`
	Traffic    string `json:"traffic"`
	Unit       string `json:"unit"` // of the rates, which are by CPU time
	Native     spread `json:"native"`
	Treated    spread `json:"treated"`
	RatioCPU   spread `json:"ratio_cpu"`
	RatioClock spread `json:"ratio_clock"`
	// MarkedShare is the minimum of all pairs; 0 if unknown.
	MarkedShare float64 `json:"marked_share,omitempty"`
	Target      float64 `json:"target,omitempty"` // for the median of RatioCPU
	Pairs       []pair  `json:"pairs"`
}

// machine describes the machine of the figures.
type machine struct {
	Processor string `json:"processor"`
	Cores     int    `json:"cores"`
	MemoryMB  uint64 `json:"memory_mb"`
	Kernel    string `json:"kernel"`
	System    string `json:"system"`
	LoadBegin string `json:"load_begin"` // averages before the experiment
	LoadEnd   string `json:"load_end"`
}

// report is the whole results file.
type report struct {
	Experiment string       `json:"experiment"`
	Date       time.Time    `json:"date"`
	Seconds    float64      `json:"seconds"`
	Commit     string       `json:"commit"`
	Machine    machine      `json:"machine"`
	Settings   settings     `json:"settings"`
	Cells      []cellReport `json:"cells"`
	Costs      costs        `json:"costs"`
}

func summarise(o outcome) cellReport {
	over := func(value func(p pair) float64) spread {
		var values []float64
		for _, p := range o.pairs {
			values = append(values, value(p))
		}
		return spread{median(values), slices.Min(values), slices.Max(values)}
	}
	unit := "packets/CPU s"
	switch {
	case o.cell.traffic.tcp == requests:
		unit = "transactions/CPU s"
	case o.cell.traffic.payload == 0:
		unit = "bits/CPU s"
	}
	return cellReport{
		Modules: o.cell.modules, Every: o.cell.every, Traffic: o.cell.traffic.String(), Unit: unit,
		Native:      over(func(p pair) float64 { return p.Native.byCPU() }),
		Treated:     over(func(p pair) float64 { return p.Treated.byCPU() }),
		RatioCPU:    over(func(p pair) float64 { return p.RatioCPU }),
		RatioClock:  over(func(p pair) float64 { return p.RatioClock }),
		MarkedShare: over(func(p pair) float64 { return p.MarkedShare }).Min,
		Target:      o.cell.target(), Pairs: o.pairs,
	}
}

// doubt warns of a ratio that is good because packets were not marked.
func (c cellReport) doubt() string {
	if c.MarkedShare == 0 || c.MarkedShare > 0.9 {
		return ""
	}
	return fmt.Sprintf(", **but only %.2g of the packets due were marked**", c.MarkedShare)
}

const method = `Two network namespaces and a veth pair; native and treated runs take turns. A ratio is the treated rate
over the native one, pair by pair: median [least..greatest]. UDP: one thread on one core, which also carries each
packet all the way into the receiving socket; ns of its CPU time a packet, median over bursts. TCP: one iperf3
stream with both ends on one core; bits a second of the CPU time of both; ` + "`segmented`" + `: the source's device segments each buffer and the destination's
merges them (GRO). ` + "`requests`" + `: a request and a reply of 100 bytes, one after the other, ns of CPU time of both ends. By the clock, what else the machine does
is in the figure too. ` + "`empty`" + ` is a program at each end that does nothing. A veth pair has no wire: with a real
link the same cost is a smaller share. Few pairs say little about the tails.

`

// markdown renders the report as tables for people.
func (r report) markdown() string {
	var b strings.Builder
	m := r.Machine
	fmt.Fprintf(&b, "# Overhead\n\nMade by `make bench`; the raw values are in the JSON file beside this one.\n\n")
	fmt.Fprintf(&b, "%s, commit %s. %s, %d cores, %d MB, Linux %s, %s. Load %s before, %s after.\n",
		r.Date.UTC().Format("2006-01-02 15:04 UTC"), r.Commit, m.Processor, m.Cores, m.MemoryMB, m.Kernel,
		m.System, m.LoadBegin, m.LoadEnd)
	fmt.Fprintf(&b, "%d pairs a cell, TCP %g s, UDP %g s a run, treatment: %s.\n\n",
		r.Settings.Pairs, r.Settings.TCPSeconds, r.Settings.UDPSeconds, r.Settings.Treatment)
	b.WriteString(method)
	b.WriteString("| modules | marked | traffic | native | treated | ratio by CPU time | by the clock | target |\n" +
		"|---|---|---|---:|---:|---|---|---|\n")
	for _, c := range r.Cells {
		fmt.Fprintf(&b, "| %s | 1 in %d | %s | %s | %s | %s | %s | %s |\n", c.Modules, c.Every, c.Traffic,
			quantity(c.Native.Median, c.Unit), quantity(c.Treated.Median, c.Unit), c.RatioCPU, c.RatioClock,
			verdict("≥", c.Target, c.RatioCPU.Median >= c.Target)+c.doubt())
	}
	if len(r.Costs.Programs) > 0 {
		b.WriteString("\n## Programs\n\nThe kernel's own count (`bpf_stats`), 56-byte UDP packets, delay and loss on every packet. Reading the\n" +
			"clock twice is in each figure: the empty programs show how much that is.\n\n")
		b.WriteString("| program | traffic | runs | ns a run | target |\n|---|---|---:|---:|---|\n")
		for _, p := range r.Costs.Programs {
			fmt.Fprintf(&b, "| %s | %s | %d | %.0f | %s |\n", p.Name, p.Family, p.Runs, p.NsPerRun,
				verdict("≤", p.target(), p.NsPerRun <= p.target()))
		}
	}
	if len(r.Costs.Maps) > 0 {
		var total uint64
		b.WriteString("\n## Memory of maps\n\n| map | type | entries | KiB |\n|---|---|---:|---:|\n")
		for _, m := range r.Costs.Maps {
			total += m.Bytes
			fmt.Fprintf(&b, "| %s | %s | %d | %.1f |\n", m.Name, m.Type, m.MaxEntries, float64(m.Bytes)/1024)
		}
		fmt.Fprintf(&b, "| all | | | %.1f |\n", float64(total)/1024)
	}
	return b.String()
}

// quantity shows a rate: bits as a rate, packets and transactions as the time of one.
func quantity(value float64, unit string) string {
	if unit == "bits/CPU s" {
		return fmt.Sprintf("%.2f Gbit/s", value/1e9)
	}
	return fmt.Sprintf("%.0f ns", 1e9/value)
}

func verdict(sign string, target float64, met bool) string {
	switch {
	case target == 0:
		return "–"
	case met:
		return fmt.Sprintf("%s %g met", sign, target)
	}
	return fmt.Sprintf("%s %g **missed**", sign, target)
}

// write writes both files to the folder, each atomically.
func (r report) write(folder string) error {
	name := "overhead"
	if r.Settings.Quick || r.Settings.Only != "" || r.Settings.Treatment != "agents" {
		name += "-partial" // not for publication
	}
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("encode report: %w", err)
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("make results folder: %w", err)
	}
	path := filepath.Join(folder, name)
	return errors.Join(replace(path+".json", append(text, '\n')), replace(path+".md", []byte(r.markdown())))
}

func replace(path string, text []byte) error {
	if err := os.WriteFile(path+".tmp", text, 0o644); err != nil {
		return fmt.Errorf("write results: %w", err)
	}
	if err := os.Rename(path+".tmp", path); err != nil {
		return fmt.Errorf("write results: %w", err)
	}
	return nil
}

// describeMachine reads the kernel's information; what is not available stays empty.
func describeMachine() machine {
	m := machine{Cores: runtime.NumCPU(), LoadBegin: load()}
	m.Processor = field("/proc/cpuinfo", "model name", ":")
	m.System = strings.Trim(field("/etc/os-release", "PRETTY_NAME", "="), `"`)
	var name unix.Utsname
	if unix.Uname(&name) == nil {
		m.Kernel = unix.ByteSliceToString(name.Release[:])
	}
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) == nil {
		m.MemoryMB = uint64(info.Totalram) * uint64(info.Unit) >> 20
	}
	return m
}

func load() string {
	text, _ := os.ReadFile("/proc/loadavg") // empty when there is none
	fields := bytes.Fields(text)
	return string(bytes.Join(fields[:min(3, len(fields))], []byte(" ")))
}

// field returns the value of the first line "key separator value" of a file.
func field(path, key, separator string) string {
	text, _ := os.ReadFile(path) // empty when there is none
	for line := range strings.Lines(string(text)) {
		left, right, found := strings.Cut(line, separator)
		if found && strings.TrimSpace(left) == key {
			return strings.TrimSpace(right)
		}
	}
	return ""
}

func round3(x float64) float64 {
	return math.Round(x*1000) / 1000
}
