package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"pillion.dev/bench/estimate"
	"pillion.dev/bench/machine"
)

// report is the whole results file.
type report struct {
	Experiment string           `json:"experiment"`
	Date       time.Time        `json:"date"`
	Seconds    float64          `json:"seconds"`
	Commit     string           `json:"commit"`
	Machine    machine.Machine  `json:"machine"`
	Settings   settings         `json:"settings"`
	Claims     []estimate.Claim `json:"claims"`
	Bars       []estimate.Bar   `json:"bars"`
	Clock      *clock           `json:"clock"`
	Cells      []*cell          `json:"cells"`
	Models     []*drawn         `json:"models"`
	Speeds     []*speed         `json:"speeds"`
	Peers      []*peer          `json:"peers"`

	others []*figure // of bench/capacity
}

// units are everything that a block has once.
func (r *report) units() (all []unit) {
	all = append(all, r.Clock)
	for _, c := range r.Cells {
		all = append(all, c)
	}
	for _, d := range r.Models {
		all = append(all, d)
	}
	for _, s := range r.Speeds {
		all = append(all, s)
	}
	for _, p := range r.Peers {
		all = append(all, p)
	}
	return all
}

func (r *report) write(folder string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, "send.json"), append(text, '\n'), 0o644)
}

// render writes the report for people, send.md, and its plots, with the claims and bars of
// bench/capacity if the folder has its results.
func render(folder string) error {
	var r report
	if err := read(filepath.Join(folder, "send.json"), &r); err != nil {
		return err
	}
	var other capacityReport
	if err := read(filepath.Join(folder, "capacity.json"), &other); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	r.Claims, r.Bars = sorted(append(r.Claims, other.Claims...)), append(r.Bars, other.Bars...)
	plots := filepath.Join(folder, "send")
	if err := os.MkdirAll(plots, 0o755); err != nil {
		return err
	}
	r.others = other.plots()
	for _, p := range r.plots() {
		if err := p.write(plots); err != nil {
			return fmt.Errorf("plot %s: %w", p.file, err)
		}
	}
	return os.WriteFile(filepath.Join(folder, "send.md"), []byte(r.markdown()), 0o644)
}

func read(path string, into any) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	return nil
}

const method = `Two network namespaces and a veth pair. An observer in BPF that shares neither code nor map with the sender records when each packet
reaches the driver; errors are against the time asked for. A block runs everything once, in random order. A figure is the median over
the blocks of each block's quantile, in brackets the 95 % confidence interval of that median (order statistics; with fewer than 6 blocks,
minimum and maximum). A claim is confirmed, or a target met, if the whole interval is on its side; otherwise it is undecided, or refuted or missed if
the whole interval is on the other. The intervals are not corrected for multiple comparisons. *Initial*: the whole train is handed
over before its first packet is due. *On the fly*: each packet 500 us before. *Socket*: prepare, clock_nanosleep, write to a packet
socket, at ordinary priority. *Throttled*: the sender's process gets 1 ms of processor time in each 10 ms, in place of a weak device (real-time threads are
exempt). There is no wire: the last time is the driver's.

`

func (r *report) markdown() string {
	var b strings.Builder
	m := r.Machine
	fmt.Fprintf(&b, "# Sending at exact times\n\nWritten by `make bench-send`; the values are in the JSON files beside this one.\n\n")
	fmt.Fprintf(&b, "%s, commit %s. %s, %d cores, %d MB, Linux %s, %s. Load %s before, %s after.\n", r.Date.UTC().Format("2006-01-02 15:04 UTC"),
		r.Commit, m.Processor, m.Cores, m.MemoryMB, m.Kernel, m.System, m.LoadBegin, m.LoadEnd)
	fmt.Fprintf(&b, "%d blocks; in each, a cell has %d trains of %d packets or %d pairs. Seed %d.\n\n%s", r.Settings.Blocks, r.Settings.Trains,
		r.Settings.Packets, r.Settings.Pairs, r.Settings.Seed, method)
	r.writeClaims(&b)
	for _, p := range r.plots() {
		fmt.Fprintf(&b, "![%s](send/%s.svg)\n\n", p.title, p.file)
	}
	r.writePeers(&b)
	r.writeBars(&b)
	return b.String()
}

func (r *report) writeClaims(b *strings.Builder) {
	b.WriteString("## Claims of the paper\n\n| | claim | verdict | figure | rule |\n|---|---|---|---|---|\n")
	for _, c := range r.Claims {
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s |\n", c.Experiment, c.Claim, c.Verdict, c.Estimate, c.Text)
	}
	b.WriteString("\n## Figures\n\n")
}

func (r *report) writePeers(b *strings.Builder) {
	if !measured(r.Peers, func(p *peer) estimate.Estimate { return p.P50 }) {
		return
	}
	b.WriteString("## Other programs\n\nDatagrams in frames of 1514 bytes at a constant rate for a second, captured at the far end in the same way for all. Microseconds between\n" +
		"the distance of two packets and the one asked for.\n\n| | p50 | p99 | within 10 us | rate above that asked for |\n|---|---|---|---|---|\n")
	for _, p := range r.Peers {
		fmt.Fprintf(b, "| %s | %.2f [%.2f..%.2f] | %.1f [%.1f..%.1f] | %.1f %% | %+.3f %% |\n", p.Name, p.P50.Median, p.P50.Low, p.P50.High,
			p.P99.Median, p.P99.Low, p.P99.High, p.Within10.Median*100, p.RateError.Median*100)
	}
	b.WriteString("\n")
}

func (r *report) writeBars(b *strings.Builder) {
	b.WriteString("## Targets\n\n| target | | figure | verdict |\n|---|---|---|---|\n")
	for _, bar := range r.Bars {
		fmt.Fprintf(b, "| %s | %s %g | %s | %s |\n", bar.Name, bar.Sense, bar.Target, bar.Estimate, bar.Verdict)
	}
}

// measured reports whether any of the list has values.
func measured[T any](list []T, of func(T) estimate.Estimate) bool {
	for _, x := range list {
		if of(x).Values > 0 {
			return true
		}
	}
	return false
}
