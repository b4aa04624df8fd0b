// First-delay is the load of the experiment on the time from nothing to live delay between
// two hosts: it runs the two commands of README.md, the second until the first delay is on
// its output, takes the lab down again and prints one JSON object. The clock starts with the
// first command and stops with the line. Elsewhere than on a terminal a line is printed when
// its window of a second is over, so a person at a terminal sees the value earlier.
//
// It needs root and the built programs. The experiment is study/bench/first-delay.yaml.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"pillion.dev/study/bench/result"
)

// delay matches the delay in a line of a watch.
var delay = regexp.MustCompile(` p50 [0-9.]+ (ns|µs|ms|s) `)

// limit is how long the second command may take.
const limit = 2 * time.Minute

func main() { result.Only("first-delay", command) }

func command(f *flag.FlagSet) func(ctx context.Context) (result.Result, error) {
	bin := f.String("bin", "bin", "folder of the programs")
	spec := f.String("lab", "lab/two-hosts.yaml", "lab file")
	return func(ctx context.Context) (result.Result, error) {
		up := []string{filepath.Join(*bin, "pillion-agent"), "lab", "up", *spec}
		watch := []string{filepath.Join(*bin, "pillion"), "session", "create", "--from", "a", "--to", "b", "--watch"}
		ready, whole, err := once(ctx, up, watch)
		if err != nil {
			return nil, err
		}
		return result.Result{"up_s": ready.Seconds(), "first_delay_s": whole.Seconds()}, nil
	}
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
	ctx, cancel := context.WithTimeout(ctx, limit)
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
