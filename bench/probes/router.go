package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
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

// measure needs a revision whose bench/router has the subcommand hooks.
func (r *router) measure() (map[string]float64, error) {
	text, err := exec.Command(r.binary, "hooks").Output()
	if err != nil {
		return nil, fmt.Errorf("run bench/router: %w", err)
	}
	var ns map[string]float64
	if err := json.Unmarshal(text, &ns); err != nil {
		return nil, fmt.Errorf("read costs of bench/router: %w", err)
	}
	costs := map[string]float64{"router, all hooks": ns["all_ns"], "router, each hook once": ns["once_ns"]}
	for name, value := range ns {
		hook, ok := strings.CutSuffix(name, "_ns")
		if ok && !strings.HasSuffix(hook, "_above_empty") && hook != "all" && hook != "once" && hook != "worst" {
			costs["router, "+hook] = value
		}
	}
	return costs, nil
}
