// Command statistics simulates whole experiments with the runner's own code: how often the
// intervals that it reports hold the truth after its stop rule, how often a null arm differs
// from its base, and how often treatments without any effect differ from the base, by the order
// of the runs and what disturbs the machine. Noise is normal, or resampled from a recorded
// experiment (noise.json). simulate.py does the same for the Python package.
//
//	go run ./study/bench/statistics [-share 0.25] [-out FILE]
//
// Seeded: the same figures each time. Exits with 1 if a bar is missed.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"hash/crc32"
	"math"
	"math/rand/v2"
	"os"
	"time"

	"pillion.dev/measure/verdict"
)

// figure is one simulated share with its Monte-Carlo error, two standard errors.
type figure struct {
	What        string  `json:"what"`
	Name        string  `json:"name"`
	Noise       string  `json:"noise"`
	Experiments int     `json:"experiments"`
	Share       float64 `json:"share"`
	Error       float64 `json:"error"`
	// HalfWidth is the mean of the intervals' half-widths, in standard deviations, and
	// Blocks the mean number of blocks; 0 for orders.
	HalfWidth float64         `json:"half_width,omitempty"`
	Blocks    float64         `json:"blocks,omitempty"`
	Bar       float64         `json:"bar,omitempty"`
	Verdict   verdict.Verdict `json:"verdict,omitempty"`
}

const (
	coverage       = "coverage"
	falsePositives = "false positives"
)

// bars of the shares, by what and noise.
var bars = map[string]map[string]float64{
	coverage:       {"normal": 0.94, "recorded": 0.93},
	falsePositives: {"normal": 0.06, "recorded": 0.07},
}

func main() {
	share := flag.Float64("share", 1, "share of the simulated experiments")
	recorded := flag.String("noise", "study/bench/statistics/noise.json", "recorded noise")
	out := flag.String("out", "", "also write the figures as JSON")
	flag.Parse()
	missed, err := simulate(*share, *recorded, *out)
	if err == nil && missed > 0 {
		err = fmt.Errorf("%d of the figures miss their bars", missed)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "statistics: %v\n", err)
		os.Exit(1)
	}
}

// simulate prints the figures, and returns how many miss their bars.
func simulate(share float64, recorded, out string) (missed int, err error) {
	values, err := readNoise(recorded)
	if err != nil {
		return 0, err
	}
	var figures []figure
	for _, kind := range []string{"normal", "recorded"} {
		for _, c := range append(rules(), orders()...) {
			random := rand.New(rand.NewPCG(uint64(crc32.ChecksumIEEE([]byte(c.name))), uint64(len(kind))))
			draw := random.NormFloat64
			if kind == "recorded" {
				draw = func() float64 { return values[random.IntN(len(values))] }
			}
			of, err := c.figures(max(100, int(share*float64(c.experiments))), draw, random)
			if err != nil {
				return 0, fmt.Errorf("simulate %s: %w", c.name, err)
			}
			for _, f := range of {
				f.Noise = kind
				if c.barred || f.What == coverage {
					f.Bar = bars[f.What][kind]
					f.judge()
				}
				if f.Verdict == verdict.Missed {
					missed++
				}
				fmt.Println(f)
				figures = append(figures, f)
			}
		}
	}
	if out == "" {
		return missed, nil
	}
	text, err := json.MarshalIndent(map[string]any{"experiment": "statistics of the runner", "figures": figures,
		"date": time.Now().UTC().Format(time.RFC3339)}, "", " ")
	if err == nil {
		err = os.WriteFile(out, append(text, '\n'), 0o644)
	}
	return missed, err
}

// readNoise reads recorded values, and centres them.
func readNoise(path string) ([]float64, error) {
	var recorded struct{ Values []float64 }
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, &recorded)
	}
	if err == nil && len(recorded.Values) < 2 {
		err = fmt.Errorf("%d values", len(recorded.Values))
	}
	if err != nil {
		return nil, fmt.Errorf("read noise %s: %w", path, err)
	}
	mean := 0.0
	for _, v := range recorded.Values {
		mean += v / float64(len(recorded.Values))
	}
	for i := range recorded.Values {
		recorded.Values[i] -= mean
	}
	return recorded.Values, nil
}

func (f *figure) judge() {
	least, most := math.Inf(-1), f.Bar
	if f.What == coverage {
		least, most = f.Bar, math.Inf(1)
	}
	f.Verdict = verdict.Of(f.Share-f.Error, f.Share+f.Error, least, most)
}

func (f figure) String() string {
	text := fmt.Sprintf("%-15s  %-45s %-8s  %6.2f %% ± %.2f", f.What, f.Name, f.Noise, 100*f.Share, 100*f.Error)
	if f.HalfWidth > 0 {
		text += fmt.Sprintf("  half-width %.3f, %.1f blocks", f.HalfWidth, f.Blocks)
	}
	if f.Verdict != "" {
		sign := "≤"
		if f.What == coverage {
			sign = "≥"
		}
		text += fmt.Sprintf("  %s %.0f %%: %s", sign, 100*f.Bar, f.Verdict)
	}
	return text
}

// tally is a sum over experiments.
type tally struct{ n, sum, squares float64 }

func (t *tally) add(v float64) { t.n, t.sum, t.squares = t.n+1, t.sum+v, t.squares+v*v }

func (t *tally) mean() float64 { return t.sum / t.n }

func (t *tally) figure(what, name string) figure {
	return figure{What: what, Name: name, Experiments: int(t.n), Share: t.mean(),
		Error: 2 * math.Sqrt(max(0, t.squares/t.n-t.mean()*t.mean())/t.n)}
}
