// Probes is the load of the experiment that compares what the probes of two revisions of this
// repository cost per packet: one call measures one path through the probes of one revision and
// prints one JSON object. The experiment is bench/probes.yaml. It needs root.
//
// The destination's programs get frames from BPF_PROG_TEST_RUN, one call per frame: a
// separate sequence number and delay for each, as from a network. What they cost above an
// empty program is measured without calls in between, on packets in UDP options; what the
// source costs likewise, above a program that only makes room for the option. The router's
// hooks see the packets of bench/router, which is built from the revision.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// result is what is printed.
type result struct {
	Path     string  `json:"path"`
	Revision string  `json:"revision"`
	Ns       float64 `json:"ns"` // per packet
}

// paths are what can be measured, by name.
func paths() map[string]func(revision string, frames int) (float64, error) {
	all := map[string]func(string, int) (float64, error){"router": measureRouter}
	for name, path := range sourcePaths() {
		all[name] = path.measure
	}
	for name, path := range destinationPaths() {
		all[name] = path.measure
	}
	return all
}

func main() {
	if err := measure(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "probes:", err)
		os.Exit(1)
	}
}

func measure(arguments []string) error {
	flags := flag.NewFlagSet("probes", flag.ExitOnError)
	known := paths()
	names := strings.Join(slices.Sorted(maps.Keys(known)), ", ")
	r := result{}
	flags.StringVar(&r.Path, "path", "source-ipv6-16-warm", "one of "+names)
	flags.StringVar(&r.Revision, "revision", "", "of git; empty for the files as they are")
	frames := flags.Int("frames", 5000, "packets of a run")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	path := known[r.Path]
	switch {
	case path == nil:
		return fmt.Errorf("read arguments: unknown path %q; there are %s", r.Path, names)
	case flags.NArg() > 0:
		return fmt.Errorf("read arguments: unexpected %q", flags.Arg(0))
	case *frames < 1:
		return fmt.Errorf("read arguments: --frames %d is below 1", *frames)
	}
	var err error
	if r.Ns, err = path(r.Revision, *frames); err != nil {
		return fmt.Errorf("measure %s of %q: %w", r.Path, r.Revision, err)
	}
	return json.NewEncoder(os.Stdout).Encode(r)
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
