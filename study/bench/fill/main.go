// Command fill is the workload of the experiment on two ways of appending rows of flows to DuckDB (study/bench/fill.yaml): column
// by column with copies of whole buffers, as archive/duckdb does, and value by value, the plain way. It runs BenchmarkFill
// of that package for one of them and prints one JSON object with the rows per second.
package main

import (
	"context"
	"flag"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"

	"pillion.dev/study/bench/result"
)

var commands = map[string]result.Command{"append": appendCommand}

func main() { result.Main("fill", commands) }

// figure is the rate in what a benchmark prints.
var figure = regexp.MustCompile(`(?m)^BenchmarkFill/\S+\s.*\s([0-9.]+) rows/s`)

func appendCommand(f *flag.FlagSet) func(ctx context.Context) (result.Result, error) {
	way := f.String("way", "columns", "columns or values")
	binary := f.String("benchmark", "bin/bench/duckdb.test", "tests of archive/duckdb as a program")
	times := f.Int("times", 3, "batches of 50,000 rows that are appended and committed")
	return func(ctx context.Context) (result.Result, error) {
		if *way != "columns" && *way != "values" {
			return nil, fmt.Errorf("invalid -way %q: want columns or values", *way)
		}
		if *times < 1 {
			return nil, fmt.Errorf("invalid -times %d: want a positive number", *times)
		}
		text, err := exec.CommandContext(ctx, *binary, "-test.run", "^$", "-test.bench", "^BenchmarkFill$/^"+*way+"$", "-test.benchtime", strconv.Itoa(*times)+"x").CombinedOutput()
		if err != nil {
			return nil, fmt.Errorf("run benchmark of %s: %w: %s", *way, err, text)
		}
		rate, err := rateIn(text)
		if err != nil {
			return nil, fmt.Errorf("run benchmark of %s: %w", *way, err)
		}
		return result.Result{"rows_per_s": rate}, nil
	}
}

func rateIn(text []byte) (float64, error) {
	match := figure.FindSubmatch(text)
	if match == nil {
		return 0, fmt.Errorf("it printed no rows/s: %q", text)
	}
	return strconv.ParseFloat(string(match[1]), 64)
}
