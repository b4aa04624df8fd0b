// Package result is what the workloads of experiments have in common: a program with
// subcommands or without, each of which measures once under one condition and prints one JSON object. What is
// repeated, compared and judged belongs to the experiment that starts it (study/bench/*.yaml).
package result

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
)

// Result is what one run prints: its figures by name, and rows of intervals.
type Result map[string]any

// AddRow adds a row to the field intervals.
func (r Result) AddRow(row map[string]any) {
	rows, _ := r["intervals"].([]map[string]any)
	r["intervals"] = append(rows, row)
}

// Print writes the result as one line of JSON.
func (r Result) Print(to io.Writer) error {
	text, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode result: %w", err)
	}
	_, err = fmt.Fprintf(to, "%s\n", text)
	return err
}

// Command defines its flags; what it returns runs once they are parsed.
type Command func(f *flag.FlagSet) func(ctx context.Context) (Result, error)

// Root makes a command refuse users who may not make network namespaces.
func Root(c Command) Command {
	return func(f *flag.FlagSet) func(ctx context.Context) (Result, error) {
		measure := c(f)
		return func(ctx context.Context) (Result, error) {
			if os.Geteuid() != 0 {
				return nil, errors.New("make network namespaces: not root; run it with sudo")
			}
			return measure(ctx)
		}
	}
}

// Main is the main function of a workload with subcommands.
func Main(name string, commands map[string]Command) {
	if len(os.Args) < 2 || commands[os.Args[1]] == nil {
		fail(name, fmt.Errorf("want a subcommand: %s", strings.Join(slices.Sorted(maps.Keys(commands)), ", ")))
	}
	run(name, name+" "+os.Args[1], commands[os.Args[1]], os.Args[2:])
}

// Only is the main function of a workload that measures one thing.
func Only(name string, c Command) { run(name, name, c, os.Args[1:]) }

func run(name, usage string, c Command, arguments []string) {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	f := flag.NewFlagSet(usage, flag.ExitOnError)
	measure := c(f)
	_ = f.Parse(arguments) // exits
	if f.NArg() > 0 {
		fail(name, fmt.Errorf("unexpected argument %q", f.Arg(0)))
	}
	r, err := measure(ctx)
	if err == nil {
		err = r.Print(os.Stdout)
	}
	if err != nil {
		fail(name, err)
	}
}

func fail(name string, err error) {
	fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
	os.Exit(1)
}
