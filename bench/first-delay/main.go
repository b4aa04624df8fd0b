// First-delay times how long it takes from nothing to live delay between two hosts:
// it runs the two commands of README.md, the second until the first delay is on its
// output, and takes the lab down again. The clock starts with the first command and
// stops with the line. Elsewhere than on a terminal a line is printed when its
// window of a second is over, so a person at a terminal sees the value earlier.
//
// It needs root and the built programs. Results: bench/results/first-delay.json,
// figures of one machine.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// delay matches the delay in a line of a watch.
var delay = regexp.MustCompile(` p50 [0-9.]+ (ns|µs|ms|s) `)

// limit is the target: a minute.
const limit = time.Minute

type report struct {
	Experiment string    `json:"experiment"`
	Date       time.Time `json:"date"`
	Commit     string    `json:"commit,omitempty"`
	Kernel     string    `json:"kernel"`
	CPUs       int       `json:"cpus"`
	Commands   []string  `json:"commands"`
	// UpSeconds is the first command's part of Seconds, run by run.
	UpSeconds     []float64 `json:"up_seconds"`
	Seconds       []float64 `json:"seconds"`
	MedianSeconds float64   `json:"median_seconds"`
	Longest       float64   `json:"longest_seconds"`
	BarSeconds    float64   `json:"bar_seconds"`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := measure(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "first-delay:", err)
		os.Exit(1)
	}
}

func measure(ctx context.Context) error {
	bin := flag.String("bin", "bin", "folder of the programs")
	spec := flag.String("lab", "lab/two-hosts.yaml", "lab file")
	runs := flag.Int("runs", 5, "how often")
	out := flag.String("out", "bench/results/first-delay.json", "where the result goes")
	flag.Parse()
	if *runs < 1 {
		return fmt.Errorf("read runs: %d is below 1", *runs)
	}
	up := []string{filepath.Join(*bin, "pillion-agent"), "lab", "up", *spec}
	watch := []string{filepath.Join(*bin, "pillion"), "session", "create", "--from", "a", "--to", "b", "--watch"}
	r := report{
		Experiment: "first-delay", Date: time.Now().UTC(), Commit: said("git", "rev-parse", "HEAD"), Kernel: said("uname", "-r"),
		CPUs: runtime.NumCPU(), Commands: []string{strings.Join(up, " "), strings.Join(watch, " ")}, BarSeconds: limit.Seconds(),
	}
	for range *runs {
		ready, whole, err := once(ctx, up, watch)
		if err != nil {
			return err
		}
		fmt.Printf("lab up after %.2f s, first delay after %.2f s\n", ready.Seconds(), whole.Seconds())
		r.UpSeconds, r.Seconds = append(r.UpSeconds, rounded(ready)), append(r.Seconds, rounded(whole))
	}
	sorted := slices.Sorted(slices.Values(r.Seconds))
	r.MedianSeconds = (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
	r.Longest = sorted[len(sorted)-1]
	fmt.Printf("median %.2f s\n", r.MedianSeconds)
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(*out, append(text, '\n'), 0o644); err != nil {
		return fmt.Errorf("write result: %w", err)
	}
	if r.Longest > limit.Seconds() {
		return fmt.Errorf("reach first delay: %.1f s is over the bar of %v", r.Longest, limit)
	}
	return nil
}

// once runs both commands; the times are from the start of the first.
func once(ctx context.Context, up, watch []string) (ready, whole time.Duration, err error) {
	begin := time.Now()
	text, err := exec.CommandContext(ctx, up[0], up[1:]...).CombinedOutput()
	if err != nil {
		return 0, 0, fmt.Errorf("run %s: %w: %s", strings.Join(up, " "), err, strings.TrimSpace(string(text)))
	}
	defer func() {
		down := exec.Command(up[0], "lab", "down", strings.Fields(string(text))[1])
		if text, failed := down.CombinedOutput(); failed != nil {
			err = errors.Join(err, fmt.Errorf("take lab down: %w: %s", failed, text))
		}
	}()
	ready = time.Since(begin)
	ctx, cancel := context.WithTimeout(ctx, 2*limit)
	defer cancel()
	command := exec.CommandContext(ctx, watch[0], watch[1:]...)
	command.Stderr = os.Stderr
	output, err := command.StdoutPipe()
	if err != nil {
		return 0, 0, err
	}
	if err := command.Start(); err != nil {
		return 0, 0, fmt.Errorf("run %s: %w", strings.Join(watch, " "), err)
	}
	lines := bufio.NewScanner(output)
	for lines.Scan() {
		if delay.MatchString(lines.Text()) {
			whole = time.Since(begin)
			break
		}
	}
	_ = command.Process.Kill()
	_ = command.Wait() // interrupted
	if whole == 0 {
		return 0, 0, fmt.Errorf("run %s: no delay was shown", strings.Join(watch, " "))
	}
	return ready, whole, nil
}

func rounded(d time.Duration) float64 { return float64(d.Milliseconds()) / 1e3 }

func said(name string, args ...string) string {
	text, _ := exec.Command(name, args...).Output() // unknown if that fails
	return strings.TrimSpace(string(text))
}
