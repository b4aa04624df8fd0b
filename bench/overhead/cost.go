package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// programCost has the kernel's own statistics of one program.
type programCost struct {
	Family   string  `json:"family"` // of the traffic
	Name     string  `json:"name"`
	Runs     uint64  `json:"runs"`
	NsPerRun float64 `json:"ns_per_run"`
}

// target returns the maximum ns that the project allows a program, 0 for none.
func (p programCost) target() float64 {
	switch {
	case strings.HasPrefix(p.Name, "source_tc"):
		return 250
	case strings.HasPrefix(p.Name, "destination_tc"):
		return 150
	}
	return 0
}

// mapMemory is the kernel memory of one map of a program.
type mapMemory struct {
	Name       string `json:"name"`
	Type       string `json:"type"`
	MaxEntries uint32 `json:"max_entries"`
	Bytes      uint64 `json:"bytes"`
}

// costs is the result of the pass with the kernel's statistics on. They slow
// every program down, so no ratio is measured in that pass, and every figure includes
// reading the clock twice: compare with the empty programs.
type costs struct {
	Programs []programCost `json:"programs"`
	Maps     []mapMemory   `json:"maps"`
}

// ourPrograms are the prefixes of the names of the measured programs.
var ourPrograms = []string{"source_", "destination_", "empty_"}

// measureCosts sends the smallest packets of both families through the empty
// programs and through Pillion with both modules and no sampling.
func (x *experiment) measureCosts(ctx context.Context) (costs, error) {
	var all costs
	switchOff, err := ebpf.EnableStats(unix.BPF_STATS_RUN_TIME)
	if err != nil {
		return all, fmt.Errorf("switch program statistics on (Linux 5.8): %w", err)
	}
	defer switchOff.Close()
	treatments := []string{emptyModules}
	if x.settings.Treatment == "agents" {
		treatments = append(treatments, "delay,loss")
	}
	for _, modules := range treatments {
		for _, v6 := range []bool{true, false} {
			c := cell{modules, 1, traffic{v6: v6, payload: 56}}
			if err := x.measureCost(ctx, c, &all); err != nil {
				return all, fmt.Errorf("measure programs under %s: %w", c, err)
			}
		}
	}
	return all, nil
}

func (x *experiment) measureCost(ctx context.Context, c cell, all *costs) error {
	before, err := programs()
	if err != nil {
		return err
	}
	effect, err := x.settings.treatmentOf(c).start(ctx, x.testbed)
	if err != nil {
		return err
	}
	err = x.readCost(ctx, c, before, all)
	_, stopErr := effect.stop()
	return errors.Join(err, stopErr)
}

// readCost reads the programs that were loaded since before, to exclude other agents on
// the machine.
func (x *experiment) readCost(ctx context.Context, c cell, before []ebpf.ProgramID, all *costs) error {
	loaded, err := programs()
	if err != nil {
		return err
	}
	loaded = slices.DeleteFunc(loaded, func(id ebpf.ProgramID) bool { return slices.Contains(before, id) })
	if _, err := x.send(ctx, c.traffic); err != nil {
		return err
	}
	all.Maps = nil // the last treatment's count, the earlier ones' are the same
	for _, id := range loaded {
		if err := readProgram(id, c, all); err != nil {
			return fmt.Errorf("read program %d: %w", id, err)
		}
	}
	return nil
}

func readProgram(id ebpf.ProgramID, c cell, all *costs) error {
	program, err := ebpf.NewProgramFromID(id)
	if errors.Is(err, unix.ENOENT) {
		return nil // a feature probe, already removed
	}
	if err != nil {
		return err
	}
	defer program.Close()
	info, err := program.Info()
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(ourPrograms, func(p string) bool { return strings.HasPrefix(info.Name, p) }) {
		return nil
	}
	stats, err := program.Stats()
	if err != nil {
		return err
	}
	if stats.RunCount > 0 {
		all.Programs = append(all.Programs, programCost{familyName(c.traffic.v6), info.Name,
			stats.RunCount, float64(stats.Runtime.Nanoseconds()) / float64(stats.RunCount)})
	}
	ids, _ := info.MapIDs()
	return readMaps(ids, all)
}

func readMaps(ids []ebpf.MapID, all *costs) error {
	for _, id := range ids {
		m, err := ebpf.NewMapFromID(id)
		if err != nil {
			return fmt.Errorf("open map %d: %w", id, err)
		}
		info, err := m.Info()
		m.Close()
		if err != nil {
			return fmt.Errorf("read map %d: %w", id, err)
		}
		bytes, _ := info.Memlock()
		found := mapMemory{info.Name, info.Type.String(), info.MaxEntries, bytes}
		if !slices.Contains(all.Maps, found) { // shared by two programs
			all.Maps = append(all.Maps, found)
		}
	}
	return nil
}

// programs lists the programs loaded in the kernel.
func programs() ([]ebpf.ProgramID, error) {
	var ids []ebpf.ProgramID
	for id := ebpf.ProgramID(0); ; {
		next, err := ebpf.ProgramGetNextID(id)
		if errors.Is(err, unix.ENOENT) {
			return ids, nil
		}
		if err != nil {
			return nil, fmt.Errorf("list programs: %w", err)
		}
		ids = append(ids, next)
		id = next
	}
}

func familyName(v6 bool) string {
	if v6 {
		return "IPv6"
	}
	return "IPv4"
}
