package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// profileResult is a run of the measure profile: how the shares of all functions of the
// system in CPU time differ between a treatment and none.
type profileResult struct {
	Arm     string `json:"arm"`
	Traffic string `json:"traffic"`
	// Functions were seen in either profile. Of the differences of their shares the mean
	// and the 2.5 % and 97.5 % quantiles follow, and the distance of these two.
	Functions int     `json:"functions"`
	Samples   int     `json:"samples"`
	Mean      float64 `json:"difference_mean"`
	Low       float64 `json:"difference_low"`
	High      float64 `json:"difference_high"`
	Width     float64 `json:"difference_width"`
	// Largest is the greatest increase, and LargestName its function.
	Largest     float64 `json:"largest"`
	LargestName string  `json:"largest_name"`
}

// measureProfile profiles half the time without the treatment, before and after it.
func measureProfile(ctx context.Context, b *bench) (any, error) {
	if _, err := exec.LookPath("perf"); err != nil {
		return nil, usageError("profile functions: perf is not installed; on Debian it is in linux-perf")
	}
	folder, err := os.MkdirTemp("", namePrefix)
	if err != nil {
		return nil, fmt.Errorf("make folder of profiles: %w", err)
	}
	defer os.RemoveAll(folder)
	file := filepath.Join(folder, "perf.data")
	without, with := profile{}, profile{}
	for _, part := range []struct {
		t      treatment
		into   profile
		length time.Duration
	}{{native{}, without, b.length / 2}, {b.arm.treatment(b.settings), with, b.length}, {native{}, without, b.length / 2}} {
		_, err := b.treated(ctx, part.t, func(running) error { return b.profiled(ctx, file, part.length, part.into) })
		if err != nil {
			return nil, err
		}
	}
	r := differ(without, with)
	r.Arm, r.Traffic = b.arm.String(), b.traffic.String()
	return r, nil
}

// profile has the samples of each function.
type profile map[string]int

func (p profile) samples() (all int) {
	for _, n := range p {
		all += n
	}
	return all
}

// profiled adds a profile of the whole system during traffic.
func (b *bench) profiled(ctx context.Context, file string, length time.Duration, into profile) error {
	const frequency = "1999" // samples a second and core; a prime, so that no timer is in step with it
	record := exec.CommandContext(ctx, "perf", "record", "-q", "-a", "-e", "cpu-clock", "-F", frequency, "-o", file, "--",
		"sleep", strconv.FormatFloat(length.Seconds(), 'f', 3, 64))
	record.Cancel = func() error { return record.Process.Signal(os.Interrupt) }
	var output strings.Builder
	record.Stderr = &output
	if err := record.Start(); err != nil {
		return fmt.Errorf("start perf: %w", err)
	}
	var sendErr error
	if b.rate > 0 {
		_, sendErr = sendPaced(ctx, b.testbed, b.traffic, b.rate, b.core, length)
	} else {
		_, sendErr = sendUDP(ctx, b.testbed, b.traffic.v6, b.traffic.payload, b.core, length)
	}
	if err := record.Wait(); err != nil {
		return errors.Join(sendErr, fmt.Errorf("run perf record: %w: %s", err, strings.TrimSpace(output.String())))
	}
	if sendErr != nil {
		return sendErr
	}
	text, err := run("perf", "script", "-i", file, "-F", "comm,ip,sym", "--no-inline")
	if err != nil {
		return err
	}
	return into.add(text)
}

// add reads what perf script prints: a line with command, address and function for each sample.
// Time in which a core had nothing to do does not count.
func (p profile) add(text string) error {
	seen := 0
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		// A command may have spaces in it, and so may a function of C++.
		command, rest, found := cutAddress(line)
		if !found {
			return fmt.Errorf("read output of perf script: no address in %.100q", line)
		}
		seen++
		if command != "swapper" {
			p[rest]++
		}
	}
	if seen == 0 {
		return errors.New("read output of perf script: no samples")
	}
	return nil
}

// cutAddress splits a line at its first word that is an address.
func cutAddress(line string) (command, function string, found bool) {
	words := strings.Fields(line)
	for i, word := range words {
		if _, err := strconv.ParseUint(word, 16, 64); i == 0 || err != nil || len(word) < 6 {
			continue
		}
		function = strings.Join(words[i+1:], " ")
		if function == "" || function == "[unknown]" {
			function = "unknown of " + strings.Join(words[:i], " ")
		}
		return strings.Join(words[:i], " "), function, true
	}
	return "", "", false
}

// leastShare is the smallest share of a function that counts, as in the paper.
const leastShare = 1e-5

// shares are the shares of the functions that count, normalised.
func (p profile) shares() map[string]float64 {
	all := float64(p.samples())
	shares, sum := map[string]float64{}, 0.0
	for name, n := range p {
		if share := float64(n) / all; share >= leastShare {
			shares[name] = share
			sum += share
		}
	}
	for name := range shares {
		shares[name] /= sum
	}
	return shares
}

// differ compares two profiles, function by function.
func differ(without, with profile) profileResult {
	r := profileResult{Samples: without.samples() + with.samples()}
	before, after := without.shares(), with.shares()
	names := map[string]bool{}
	for _, shares := range []map[string]float64{before, after} {
		for name := range shares {
			names[name] = true
		}
	}
	var differences []float64
	for name := range names {
		d := after[name] - before[name]
		differences = append(differences, d)
		r.Mean += d / float64(len(names))
		if d > r.Largest || d == r.Largest && name < r.LargestName {
			r.Largest, r.LargestName = d, name
		}
	}
	slices.Sort(differences)
	r.Functions = len(differences)
	r.Low, r.High = quantile(differences, 0.025), quantile(differences, 0.975)
	r.Width = r.High - r.Low
	return r
}

// quantile interpolates between sorted values.
func quantile(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	at := q * float64(len(sorted)-1)
	low := math.Floor(at)
	high := math.Ceil(at)
	return sorted[int(low)] + (at-low)*(sorted[int(high)]-sorted[int(low)])
}
