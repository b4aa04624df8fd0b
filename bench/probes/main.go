// Command probes compares what the probes of two revisions of this repository cost per
// packet. Their rounds alternate in one run, so that whatever else the machine does
// affects both. It needs root.
//
// The destination's programs get frames from BPF_PROG_TEST_RUN, one call per frame: a
// separate sequence number and delay for each, as from a network. What they cost above an
// empty program is measured without calls in between, on packets in UDP options; what the
// source costs likewise, above a program that only makes room for the option. The router's hooks see the packets of bench/router, which is built from each revision.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"time"

	"pillion.dev/bench/estimate"
)

// figure is one cost in ns per packet: of each round, the medians, and the ratio of the
// medians, new to old. RatioMedian is the median of the rounds' ratios.
type figure struct {
	Name        string    `json:"name"`
	Old         []float64 `json:"old_ns"`
	New         []float64 `json:"new_ns"`
	OldMedian   float64   `json:"old_median_ns"`
	NewMedian   float64   `json:"new_median_ns"`
	Ratio       float64   `json:"ratio"`
	RatioMedian float64   `json:"ratio_median_of_rounds"`
}

type report struct {
	Experiment string    `json:"experiment"`
	Date       time.Time `json:"date"`
	Processors int       `json:"processors"`
	Old        string    `json:"old"`
	New        string    `json:"new"`
	Rounds     int       `json:"rounds"`
	Frames     int       `json:"frames_per_round"`
	Figures    []*figure `json:"figures"`
}

// A part measures one revision once and returns ns per packet by name.
type part interface {
	measure() (map[string]float64, error)
	close()
}

func main() {
	r := report{Experiment: "probes", Date: time.Now(), Processors: runtime.NumCPU()}
	only := flag.String("only", "", "source, destination or router, to measure it alone")
	out := flag.String("out", "bench/results/probes.json", "result file")
	flag.StringVar(&r.Old, "old", "HEAD~1", "revision to compare with")
	flag.StringVar(&r.New, "new", "", "revision to judge; empty for the files as they are")
	flag.IntVar(&r.Rounds, "rounds", 9, "rounds of both revisions")
	flag.IntVar(&r.Frames, "frames", 40_000, "frames of a round")
	flag.Parse()
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt)
	err := r.run(ctx, *only)
	cancel()
	if err == nil {
		err = r.write(*out)
	}
	if err != nil {
		log.Fatal(err)
	}
}

func (r *report) run(ctx context.Context, only string) error {
	for _, open := range []struct {
		name  string
		open  func(revision string, frames int) (part, error)
		split int // of a round, so that disturbances affect both revisions
	}{{"source", openSource, 8}, {"destination", openDestination, 8}, {"router", openRouter, 1}} {
		if only != "" && only != open.name {
			continue
		}
		old, err := open.open(r.Old, r.Frames/open.split)
		if err != nil {
			return err
		}
		defer old.close()
		next, err := open.open(r.New, r.Frames/open.split)
		if err != nil {
			return err
		}
		defer next.close()
		if err := r.alternate(ctx, old, next, open.split*r.Rounds); err != nil {
			return err
		}
	}
	return nil
}

// alternate runs the rounds; each revision is first in every other one.
func (r *report) alternate(ctx context.Context, old, next part, rounds int) error {
	figures := map[string]*figure{}
	for i := range rounds {
		if err := ctx.Err(); err != nil {
			return err
		}
		var costs [2]map[string]float64
		for j := range 2 {
			which := (i + j) % 2
			c, err := []part{old, next}[which].measure()
			if err != nil {
				return err
			}
			costs[which] = c
		}
		for name, ns := range costs[0] {
			if figures[name] == nil {
				figures[name] = &figure{Name: name}
			}
			f := figures[name]
			if other, found := costs[1][name]; found {
				f.Old, f.New = append(f.Old, round(ns)), append(f.New, round(other))
			}
		}
	}
	for _, f := range figures {
		if len(f.Old) == 0 {
			continue
		}
		var ratios []float64
		for i, ns := range f.Old {
			ratios = append(ratios, f.New[i]/ns)
		}
		f.OldMedian, f.NewMedian = estimate.Median(f.Old), estimate.Median(f.New)
		f.Ratio, f.RatioMedian = round(f.NewMedian/f.OldMedian), round(estimate.Median(ratios))
		r.Figures = append(r.Figures, f)
	}
	slices.SortFunc(r.Figures, func(a, b *figure) int { return strings.Compare(a.Name, b.Name) })
	return nil
}

func (r *report) write(path string) error {
	for _, f := range r.Figures {
		fmt.Printf("%-100s %8.1f ns, was %8.1f: %.3f (median of the rounds %.3f)\n", f.Name, f.NewMedian, f.OldMedian, f.Ratio, f.RatioMedian)
	}
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}

// object returns a file of a revision; empty means the working tree.
func object(revision, path string) ([]byte, error) {
	if revision == "" {
		return os.ReadFile(path)
	}
	text, err := exec.Command("git", "show", revision+":"+path).Output()
	if err != nil {
		return nil, fmt.Errorf("read %s of %s: %w", path, revision, err)
	}
	return text, nil
}

func round(v float64) float64 { return float64(int64(v*1000+0.5)) / 1000 }
