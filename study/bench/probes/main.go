// Probes is the load of the experiment that compares what the probes of two revisions of this
// repository cost per packet: one call measures one path through the probes of one revision and
// prints one JSON object. The experiment is study/bench/probes.yaml. It needs root.
//
// The destination's programs get frames from BPF_PROG_TEST_RUN, one call per frame: a
// separate sequence number and delay for each, as from a network. What they cost above an
// empty program is measured without calls in between, on packets in UDP options; what the
// source costs likewise, above a program that only makes room for the option, and for packets that come in, above an
// empty one. The router's
// hooks see the packets of study/bench/router, which is built from the revision.
package main

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"

	"pillion.dev/study/bench/result"
)

// paths are what can be measured, by name.
func paths() map[string]func(revision string, frames int) (float64, error) {
	all := map[string]func(string, int) (float64, error){"router": measureRouter}
	for name, path := range sourcePaths() {
		all[name] = path.measure
	}
	for name, path := range returnPaths() {
		all[name] = path.measure
	}
	for name, path := range destinationPaths() {
		all[name] = path.measure
	}
	return all
}

func main() { result.Only("probes", command) }

func command(f *flag.FlagSet) func(ctx context.Context) (result.Result, error) {
	known := paths()
	names := strings.Join(slices.Sorted(maps.Keys(known)), ", ")
	path := f.String("path", "source-ipv6-16-warm", "one of "+names)
	revision := f.String("revision", "", "of git; empty for the files as they are")
	frames := f.Int("frames", 5000, "packets of a run")
	return func(context.Context) (result.Result, error) {
		switch {
		case known[*path] == nil:
			return nil, fmt.Errorf("read arguments: unknown path %q; there are %s", *path, names)
		case *frames < 1:
			return nil, fmt.Errorf("read arguments: --frames %d is below 1", *frames)
		}
		ns, err := known[*path](*revision, *frames)
		if err != nil {
			return nil, fmt.Errorf("measure %s of %q: %w", *path, *revision, err)
		}
		return result.Result{"path": *path, "revision": *revision, "ns": ns}, nil // ns per packet
	}
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
