package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"pillion.dev/bench/estimate"
)

// router is bench/router built from one revision.
type router struct {
	dir, binary string
}

func openRouter(revision string, _ int) (_ part, err error) {
	dir, err := os.MkdirTemp("", "pillion-probes-")
	if err != nil {
		return nil, err
	}
	r := &router{dir: dir, binary: filepath.Join(dir, "router")}
	defer func() {
		if err != nil {
			r.close()
		}
	}()
	source := "."
	if revision != "" {
		source = filepath.Join(dir, "tree")
		script := `mkdir "$1" && git archive "$2" | tar -x -C "$1"`
		if text, err := exec.Command("bash", "-euo", "pipefail", "-c", script, "-", source, revision).CombinedOutput(); err != nil {
			return nil, fmt.Errorf("copy revision %s: %w: %s", revision, err, text)
		}
	}
	build := exec.Command("go", "build", "-o", r.binary, "./bench/router")
	build.Dir = source
	if text, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build bench/router of %q: %w: %s", revision, err, text)
	}
	return r, nil
}

func (r *router) close() { os.RemoveAll(r.dir) }

func (r *router) measure() (map[string]float64, error) {
	out := filepath.Join(r.dir, "costs.json")
	if text, err := exec.Command(r.binary, "-only", "costs", "-pairs", "0", "-out", out).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("run bench/router: %w: %s", err, text)
	}
	text, err := os.ReadFile(out)
	if err != nil {
		return nil, err
	}
	var result struct {
		Costs struct {
			Packet estimate.Estimate `json:"ns_per_forwarded_packet"`
			Once   estimate.Estimate `json:"ns_per_forwarded_packet_each_hook_once"`
			Hooks  []struct {
				Hook string            `json:"hook"`
				Runs uint64            `json:"runs"`
				Ns   estimate.Estimate `json:"ns_per_run"`
			} `json:"hooks"`
		} `json:"costs"`
	}
	if err := json.Unmarshal(text, &result); err != nil {
		return nil, err
	}
	if len(result.Costs.Hooks) == 0 {
		return nil, errors.New("read costs of bench/router: no hook")
	}
	costs := map[string]float64{"router, all hooks": result.Costs.Packet.Median, "router, each hook once": result.Costs.Once.Median}
	for _, hook := range result.Costs.Hooks {
		if hook.Runs > 200_000 && hook.Ns.Median > 0 { // those on the path of forwarded packets
			costs["router, "+hook.Hook] = hook.Ns.Median
		}
	}
	return costs, nil
}
