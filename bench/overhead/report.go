package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"pillion.dev/bench/estimate"
	"pillion.dev/bench/machine"
)

// armReport has the statistics of one arm in a cell. Ratios are computed block by block, so
// their median need not be the ratio of the two median rates.
type armReport struct {
	Arm string `json:"arm"`
	// Rate is by CPU time, in the unit of the cell; absent if programs are measured.
	Rate         *estimate.Estimate `json:"rate,omitempty"`
	RatioToNone  *estimate.Estimate `json:"ratio_to_none,omitempty"`
	RatioToEmpty *estimate.Estimate `json:"ratio_to_empty,omitempty"`
	RatioByClock *estimate.Estimate `json:"ratio_to_none_by_clock,omitempty"`
	// Beside is the CPU time of the treatment's processes, in cores; no rate includes it.
	Beside *estimate.Estimate `json:"beside,omitempty"`
	// SourceNs and DestinationNs are those of the programs above empty ones, a packet.
	SourceNs      *estimate.Estimate `json:"source_ns,omitempty"`
	DestinationNs *estimate.Estimate `json:"destination_ns,omitempty"`
	Invalid       int                `json:"invalid"` // runs that lost packets and were repeated
	Missed        float64            `json:"missed"`  // packets that a capture did not see
	// MarkedShare is the minimum of all blocks, of the packets due; absent if unknown.
	MarkedShare *float64 `json:"marked_share,omitempty"`
}

// cellReport is a cell in the results file: every raw value, and the statistics.
type cellReport struct {
	Traffic string      `json:"traffic"`
	Unit    string      `json:"unit,omitempty"`
	Arms    []armReport `json:"arms"`
	Bars    []barReport `json:"bars,omitempty"`
	Blocks  []block     `json:"blocks"`
}

// armText describes an arm to readers of the results.
type armText struct {
	Name  string `json:"name"`
	What  string `json:"what"`
	Delay bool   `json:"one_way_delay"`
	Loss  bool   `json:"loss"`
}

// report is the whole results file.
type report struct {
	Experiment string          `json:"experiment"`
	Date       time.Time       `json:"date"`
	Seconds    float64         `json:"seconds"`
	Commit     string          `json:"commit"`
	Machine    machine.Machine `json:"machine"`
	Settings   settings        `json:"settings"`
	Arms       []armText       `json:"arms"`
	Missing    []string        `json:"missing,omitempty"` // arms that were left out, and why
	Cells      []cellReport    `json:"cells"`
	Maps       []mapMemory     `json:"maps,omitempty"`
}

// add concludes a cell that has at least one block.
func (r *report) add(o outcome) {
	r.Cells = append(r.Cells, summarise(o))
	for _, a := range o.arms {
		if t := (armText{a.name, a.what, a.delay, a.loss}); !slices.Contains(r.Arms, t) {
			r.Arms = append(r.Arms, t)
		}
	}
}

func summarise(o outcome) cellReport {
	c := cellReport{Traffic: o.cell.String(), Blocks: o.blocks}
	if !o.cell.programs {
		c.Unit = o.cell.traffic.unit()
	}
	for _, a := range o.arms {
		c.Arms = append(c.Arms, o.summariseArm(a))
	}
	for _, b := range barsOf(o) {
		c.Bars = append(c.Bars, b.judge(o))
	}
	return c
}

func (o outcome) summariseArm(a arm) armReport {
	r := armReport{Arm: a.name}
	over := func(value func(b block) (float64, bool)) *estimate.Estimate {
		if e := o.estimate(value); e.Values > 0 {
			return &e
		}
		return nil
	}
	for _, b := range o.blocks {
		if found, ok := b.of(a.name); ok {
			r.Invalid += found.Invalid
			r.Missed += found.Missed
		}
	}
	if share, known := o.markedShare(a.name); known {
		r.MarkedShare = &share
	}
	if o.cell.programs {
		r.SourceNs = over(func(b block) (float64, bool) { return b.aboveEmpty(a.name, roleSource) })
		r.DestinationNs = over(func(b block) (float64, bool) { return b.aboveEmpty(a.name, roleDestination) })
		return r
	}
	r.Rate = over(func(b block) (float64, bool) { found, ok := b.of(a.name); return found.byCPU(), ok })
	r.Beside = over(func(b block) (float64, bool) { found, ok := b.of(a.name); return found.Beside, ok })
	if a.name != armNone {
		r.RatioToNone = over(func(b block) (float64, bool) { return b.ratio(a.name, armNone) })
		r.RatioByClock = over(func(b block) (float64, bool) { return b.compare(a.name, armNone, sample.byClock) })
	}
	if a.name != armEmpty {
		r.RatioToEmpty = over(func(b block) (float64, bool) { return b.ratio(a.name, armEmpty) })
	}
	return r
}

// write writes both files to the folder, each atomically.
func (r report) write(folder string) error {
	name := "overhead"
	if r.Settings.Quick || r.Settings.Only != "" || r.Settings.Arms != "" || r.Settings.Source != "" {
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

func round3(x float64) float64 {
	return math.Round(x*1000) / 1000
}
