package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// measureRouter returns the time of a forwarded packet in all hooks of a router, ns. The
// revision needs a study/bench/router that has the subcommand hooks.
func measureRouter(revision string, _ int) (float64, error) {
	program, err := buildRouter(revision)
	if err != nil {
		return 0, err
	}
	text, err := exec.Command(program, "hooks").Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w: %s", err, strings.TrimSpace(string(exit.Stderr)))
		}
		return 0, fmt.Errorf("run study/bench/router: %w", err)
	}
	var costs struct {
		All float64 `json:"all_ns"`
	}
	if err := json.Unmarshal(text, &costs); err != nil {
		return 0, fmt.Errorf("read costs of study/bench/router: %w", err)
	}
	if costs.All <= 0 {
		return 0, fmt.Errorf("read costs of study/bench/router: no all_ns in %.100q", text)
	}
	return costs.All, nil
}

// buildRouter builds study/bench/router of a revision, once for each commit.
func buildRouter(revision string) (program string, err error) {
	folder := filepath.Join("bin", "revisions", "tree")
	source := "."
	if revision != "" {
		commit, err := exec.Command("git", "rev-parse", "--verify", revision+"^{commit}").Output()
		if err != nil {
			return "", fmt.Errorf("find revision %s: %w", revision, err)
		}
		folder = filepath.Join("bin", "revisions", strings.TrimSpace(string(commit)))
		if _, err := os.Stat(filepath.Join(folder, "router")); err == nil {
			return filepath.Join(folder, "router"), nil
		}
		if source, err = os.MkdirTemp("", "pillion-probes-"); err != nil {
			return "", err
		}
		defer os.RemoveAll(source)
		const script = `git archive "$1" | tar -x -C "$2"`
		if text, err := exec.Command("bash", "-euo", "pipefail", "-c", script, "-", revision, source).CombinedOutput(); err != nil {
			return "", fmt.Errorf("copy revision %s: %w: %s", revision, err, text)
		}
	}
	if program, err = filepath.Abs(filepath.Join(folder, "router")); err != nil {
		return "", err
	}
	build := exec.Command("go", "build", "-o", program, "./study/bench/router")
	build.Dir = source
	if text, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build study/bench/router: %w: %s", err, text)
	}
	return program, nil
}
