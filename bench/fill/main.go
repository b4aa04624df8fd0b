// Command fill compares two ways of appending rows of flows to DuckDB: column by column
// with copies of whole buffers, as archive/duckdb does, and value by value, the plain way.
// It runs BenchmarkFill of that package alternately. The plain way has to take at least
// 1.5 times as long to justify the unsafe code in archive/duckdb/fill.go.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
)

// result are rows appended and committed per second, medians of the rounds.
type result struct {
	Processors int     `json:"processors"`
	Rounds     int     `json:"rounds"`
	Columns    float64 `json:"columns_rows_per_s"`
	Values     float64 `json:"values_rows_per_s"`
	// Ratio is the median of the rounds' ratios; Least and Most are their extremes.
	Ratio float64 `json:"ratio"`
	Least float64 `json:"ratio_min"`
	Most  float64 `json:"ratio_max"`
}

var figure = regexp.MustCompile(`BenchmarkFill/\S+\s.*\s([0-9.]+) rows/s`)

func main() {
	rounds := flag.Int("rounds", 7, "rounds of both ways")
	out := flag.String("out", "bench/results/fill.json", "result file")
	flag.Parse()
	if err := run(*rounds, *out); err != nil {
		log.Fatal(err)
	}
}

func run(rounds int, out string) error {
	dir, err := os.MkdirTemp("", "pillion-fill-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	binary := filepath.Join(dir, "fill.test")
	if text, err := exec.Command("go", "test", "-c", "-o", binary, "./archive/duckdb").CombinedOutput(); err != nil {
		return fmt.Errorf("build benchmark: %w: %s", err, text)
	}
	var columns, values, ratios []float64
	for range rounds {
		c, err := measure(binary, "columns")
		if err != nil {
			return err
		}
		v, err := measure(binary, "values")
		if err != nil {
			return err
		}
		columns, values, ratios = append(columns, c), append(values, v), append(ratios, c/v)
	}
	for _, list := range [][]float64{columns, values, ratios} {
		slices.Sort(list)
	}
	text, err := json.MarshalIndent(result{
		Processors: runtime.NumCPU(), Rounds: rounds, Columns: columns[rounds/2], Values: values[rounds/2],
		Ratio: ratios[rounds/2], Least: ratios[0], Most: ratios[rounds-1],
	}, "", "  ")
	if err != nil {
		return err
	}
	fmt.Println(string(text))
	return os.WriteFile(out, append(text, '\n'), 0o644)
}

// measure runs one way once and returns rows per second.
func measure(binary, way string) (float64, error) {
	text, err := exec.Command(binary, "-test.run", "^$", "-test.bench", "^BenchmarkFill$/^"+way+"$", "-test.benchtime", "3x").CombinedOutput()
	if err != nil {
		return 0, fmt.Errorf("run benchmark %s: %w: %s", way, err, text)
	}
	match := figure.FindSubmatch(text)
	if match == nil {
		return 0, fmt.Errorf("run benchmark %s: no rows/s in %s", way, text)
	}
	return strconv.ParseFloat(string(match[1]), 64)
}
