package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// programCost has the kernel's own statistics of one program. Every figure includes reading
// the clock twice: compare with the empty programs.
type programCost struct {
	Name     string  `json:"name"`
	Runs     uint64  `json:"runs"`
	NsPerRun float64 `json:"ns_per_run"`
}

// mapMemory is the kernel memory of one map of a program.
type mapMemory struct {
	Name       string `json:"name"`
	Type       string `json:"type"`
	MaxEntries uint32 `json:"max_entries"`
	Bytes      uint64 `json:"bytes"`
}

const (
	roleSource      = "source"
	roleDestination = "destination"
)

// perPacket names the programs that run for every packet, Pillion's and the empty one at the
// same hook.
var perPacket = map[string]struct{ ours, empty string }{
	roleSource:      {"source_tc", emptyEgress},
	roleDestination: {"destination_tc", emptyIngress},
}

// aboveEmpty is the time of Pillion's program above that of the empty one, ns a run.
func (b block) aboveEmpty(arm, role string) (ns float64, ok bool) {
	r, found := b.of(arm)
	base, hasBase := b.of(armEmpty)
	if !found || !hasBase {
		return 0, false
	}
	names := perPacket[role]
	ours, counted := r.program(names.ours)
	least, baseCounted := base.program(names.empty)
	return ours - least, counted && baseCounted
}

// above is the same above Pillion's program in another arm, or above the empty one.
func (b block) above(arm, base, role string) (ns float64, ok bool) {
	ours, counted := b.aboveEmpty(arm, role)
	if base == "" {
		return ours, counted
	}
	theirs, baseCounted := b.aboveEmpty(base, role)
	return ours - theirs, counted && baseCounted
}

func (r trial) program(prefix string) (ns float64, ok bool) {
	for _, p := range r.Programs {
		if strings.HasPrefix(p.Name, prefix) {
			return p.NsPerRun, true
		}
	}
	return 0, false
}

// runCounted runs an arm while the kernel counts the time of programs.
func (b *bench) runCounted(ctx context.Context, a arm, c cell) (trial, error) {
	switchOff, err := ebpf.EnableStats(unix.BPF_STATS_RUN_TIME)
	if err != nil {
		return trial{}, fmt.Errorf("switch program statistics on (Linux 5.8): %w", err)
	}
	defer switchOff.Close()
	return b.runTreated(ctx, a, c, func(r *trial) error {
		attached, err := attachedPrograms(b.testbed)
		if err != nil {
			return err
		}
		var maps []ebpf.MapID
		for _, id := range attached {
			used, err := readProgram(id, r)
			if err != nil {
				return fmt.Errorf("read program %d: %w", id, err)
			}
			maps = append(maps, used...)
		}
		if a.name == armAgents {
			return b.readMaps(maps)
		}
		return nil
	})
}

// readProgram adds the statistics of a program and returns its maps.
func readProgram(id ebpf.ProgramID, r *trial) ([]ebpf.MapID, error) {
	program, err := ebpf.NewProgramFromID(id)
	if err != nil {
		return nil, err
	}
	defer program.Close()
	info, err := program.Info()
	if err != nil {
		return nil, err
	}
	stats, err := program.Stats()
	if err != nil {
		return nil, err
	}
	if stats.RunCount > 0 {
		r.Programs = append(r.Programs, programCost{info.Name, stats.RunCount,
			float64(stats.Runtime.Nanoseconds()) / float64(stats.RunCount)})
	}
	maps, _ := info.MapIDs()
	return maps, nil
}

// readMaps collects the maps of the programs in the packet path. Those of a later run are
// the same.
func (b *bench) readMaps(ids []ebpf.MapID) error {
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
		if !slices.Contains(b.maps, found) { // shared by two programs
			b.maps = append(b.maps, found)
		}
	}
	return nil
}
