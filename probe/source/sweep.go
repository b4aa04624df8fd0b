package source

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/cilium/ebpf"

	"pillion.dev/internal/clock"
	"pillion.dev/probe/flow"
)

// sweepBatch is how many flows one system call reads.
const sweepBatch = 4096

// Sweep removes flows that have been idle for longer than Settings.Idle and counts
// the others. Call it now and then; packets need not wait for it.
func (s *Source) Sweep() error {
	tick, err := clock.Tick()
	if err != nil {
		return fmt.Errorf("sweep flows: %w", err)
	}
	var now uint64 // as of the last Renew
	if err := s.objects.TicksNow.Get(&now); err != nil {
		return fmt.Errorf("sweep flows: %w", err)
	}
	idleTicks := uint32(min(s.idle/tick, math.MaxInt32))
	expired, present, err := s.sweepSlots(idleTicks)
	if err != nil {
		return fmt.Errorf("sweep flows: %w", err)
	}
	s.expired += expired
	keys := make([]flow.Raw, sweepBatch)
	values := make([]sourceNumbering, sweepBatch)
	var cursor ebpf.MapBatchCursor
	var idle []flow.Raw
	for {
		n, err := s.objects.FlowNumbers.BatchLookup(&cursor, keys, values, nil)
		if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return fmt.Errorf("sweep flows: %w", err)
		}
		for i := range n {
			if unused := int32(uint32(now) - values[i].Used); unused > 0 && uint32(unused) > idleTicks {
				idle = append(idle, keys[i])
				continue
			}
			present++
		}
		if err != nil {
			break
		}
	}
	for _, key := range idle {
		if s.objects.FlowNumbers.Delete(key) == nil {
			s.expired++
		}
	}
	s.present = present
	return s.forgetPaths(now, uint64(pathTime/tick))
}

// sweepSlots has the kernel remove idle flows from the slots.
func (s *Source) sweepSlots(idleTicks uint32) (expired, present uint64, err error) {
	if err := s.objects.SweepIdle.Set(idleTicks); err != nil {
		return 0, 0, err
	}
	if _, err := s.objects.SourceSweep.Run(&ebpf.RunOptions{}); err != nil {
		return 0, 0, err
	}
	var gone, left uint32
	err = errors.Join(s.objects.SweepExpired.Get(&gone), s.objects.SweepPresent.Get(&left))
	return uint64(gone), uint64(left), err
}

// pathTime is how long a router's word about the size of packets counts
// (RFC 8201, section 4).
const pathTime = 10 * time.Minute

func (s *Source) forgetPaths(now, ticks uint64) error {
	var key sourcePath
	var limit sourcePathLimit
	var old []sourcePath
	entries := s.objects.Paths.Iterate()
	for entries.Next(&key, &limit) {
		if limit.Learned < now && now-limit.Learned > ticks {
			old = append(old, key)
		}
	}
	for _, key := range old {
		if err := s.objects.Paths.Delete(key); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return fmt.Errorf("forget path: %w", err)
		}
	}
	if len(old) > 0 {
		if err := s.changed(); err != nil {
			return err
		}
	}
	if err := entries.Err(); err != nil && !errors.Is(err, ebpf.ErrIterationAborted) {
		return fmt.Errorf("forget paths: %w", err)
	}
	return nil
}
