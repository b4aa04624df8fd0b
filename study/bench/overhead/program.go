package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// times of the programs that run for each packet, ns by the kernel's own count
// (bpf_stats). They include reading the clock twice: compare them with empty programs.
type times struct {
	source, destination float64
	cpu                 float64 // CPU time of a packet at both ends, without the count
	mapBytes            uint64  // of the programs in the packet path
}

// programsResult is a run of the measure programs.
type programsResult struct {
	Arm     string `json:"arm"`
	Above   string `json:"above"`
	Traffic string `json:"traffic"`
	// SourceNs and DestinationNs are the time of a packet in the programs above its time in
	// the other treatment's programs, ns.
	SourceNs      float64 `json:"source_ns"`
	DestinationNs float64 `json:"destination_ns"`
	TotalNs       float64 `json:"total_ns"`
	// The shares are of the CPU time of a packet at both ends.
	SourceShare      float64 `json:"source_share"`
	DestinationShare float64 `json:"destination_share"`
	CPUNs            float64 `json:"cpu_ns"`
	// MapBytes is the kernel memory of the maps of the programs in the packet path.
	MapBytes uint64 `json:"map_bytes"`
}

// measurePrograms times the programs of a treatment and of the one that it is compared
// with, one after the other.
func measurePrograms(ctx context.Context, b *bench) (any, error) {
	r := programsResult{Arm: b.arm.String(), Above: b.above.String(), Traffic: b.traffic.String()}
	base, err := b.timed(ctx, b.above.treatment(b.settings))
	if err != nil {
		return nil, fmt.Errorf("time %s: %w", b.above, err)
	}
	t, err := b.timed(ctx, b.arm.treatment(b.settings))
	if err != nil {
		return nil, fmt.Errorf("time %s: %w", b.arm, err)
	}
	r.SourceNs, r.DestinationNs = t.source-base.source, t.destination-base.destination
	r.TotalNs = r.SourceNs + r.DestinationNs
	r.CPUNs, r.MapBytes = t.cpu, t.mapBytes
	r.SourceShare, r.DestinationShare = r.SourceNs/t.cpu, r.DestinationNs/t.cpu
	return r, nil
}

// timed sends traffic through the programs of a treatment: first without the count, which
// slows every program down, then with it.
func (b *bench) timed(ctx context.Context, t treatment) (times, error) {
	var found times
	_, err := b.treated(ctx, t, func(running) error {
		r, err := sendUDP(ctx, b.testbed, b.traffic.v6, b.traffic.payload, b.core, b.length/2)
		if err == nil {
			err = mustArrive(b.traffic, r)
		}
		if err != nil {
			return err
		}
		found.cpu = r.CPUNs
		return b.counted(func() error {
			if b.rate > 0 {
				_, err := sendPaced(ctx, b.testbed, b.traffic, b.rate, b.core, b.length)
				return err
			}
			r, err := sendUDP(ctx, b.testbed, b.traffic.v6, b.traffic.payload, b.core, b.length)
			if err == nil {
				err = mustArrive(b.traffic, r)
			}
			return err
		}, &found)
	})
	return found, err
}

// counted sends traffic while the kernel counts the time of programs, and reads it.
func (b *bench) counted(send func() error, found *times) error {
	before, err := b.readPrograms(found)
	if err != nil {
		return err
	}
	switchOff, err := ebpf.EnableStats(unix.BPF_STATS_RUN_TIME)
	if err != nil {
		return fmt.Errorf("switch program statistics on (Linux 5.8): %w", err)
	}
	defer switchOff.Close()
	if err := send(); err != nil {
		return err
	}
	after, err := b.readPrograms(found)
	if err != nil {
		return err
	}
	for id, count := range after {
		runs := count.runs - before[id].runs
		if runs == 0 {
			continue
		}
		ns := float64(count.ns-before[id].ns) / float64(runs)
		switch {
		case count.isOne(sourcePrograms):
			found.source = ns
		case count.isOne(destinationPrograms):
			found.destination = ns
		}
	}
	return nil
}

// The programs that run for every packet, Pillion's and what takes their place.
var (
	sourcePrograms      = []string{"source_tc", emptyEgress, roomEgress}
	destinationPrograms = []string{"destination_tc", emptyIngress}
)

// count has the kernel's statistics of a program so far.
type count struct {
	name string
	runs uint64
	ns   int64
}

// isOne compares names as the kernel keeps them: their first 15 letters.
func (c count) isOne(names []string) bool {
	for _, name := range names {
		if strings.HasPrefix(name, c.name) && len(c.name) >= min(len(name), 15) {
			return true
		}
	}
	return false
}

// readPrograms reads the programs that are attached to the pair, and the memory of their maps.
func (b *bench) readPrograms(found *times) (map[ebpf.ProgramID]count, error) {
	attached, err := attachedPrograms(b.testbed)
	if err != nil {
		return nil, err
	}
	counts := map[ebpf.ProgramID]count{}
	sizes := map[ebpf.MapID]uint64{} // two programs share maps
	for _, id := range attached {
		if counts[id], err = readProgram(id, sizes); err != nil {
			return nil, fmt.Errorf("read program %d: %w", id, err)
		}
	}
	found.mapBytes = 0
	for _, bytes := range sizes {
		found.mapBytes += bytes
	}
	return counts, nil
}

func readProgram(id ebpf.ProgramID, sizes map[ebpf.MapID]uint64) (count, error) {
	program, err := ebpf.NewProgramFromID(id)
	if err != nil {
		return count{}, err
	}
	defer program.Close()
	info, err := program.Info()
	if err != nil {
		return count{}, err
	}
	stats, err := program.Stats()
	if err != nil {
		return count{}, err
	}
	maps, _ := info.MapIDs() // absent before Linux 4.15
	for _, id := range maps {
		m, err := ebpf.NewMapFromID(id)
		if err != nil {
			return count{}, fmt.Errorf("open map %d: %w", id, err)
		}
		info, err := m.Info()
		m.Close()
		if err != nil {
			return count{}, fmt.Errorf("read map %d: %w", id, err)
		}
		sizes[id], _ = info.Memlock()
	}
	return count{info.Name, stats.RunCount, stats.Runtime.Nanoseconds()}, nil
}
