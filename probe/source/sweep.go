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

// Sweep removes flows that have been idle for longer than the idle time of their policy and counts
// the others. Call it now and then; packets need not wait for it.
func (s *Source) Sweep() error {
	s.tables.Lock()
	defer s.tables.Unlock()
	tick, err := clock.Tick()
	if err != nil {
		return fmt.Errorf("sweep flows: %w", err)
	}
	var now uint64 // as of the last Renew
	if err := s.objects.TicksNow.Get(&now); err != nil {
		return fmt.Errorf("sweep flows: %w", err)
	}
	before, err := s.Tally() // what begins while flows are counted is not missing
	if err != nil {
		return fmt.Errorf("sweep flows: %w", err)
	}
	idle := s.idleTicks(tick)
	expired, present, err := s.sweepSlots(idle)
	if err != nil {
		return fmt.Errorf("sweep flows: %w", err)
	}
	s.expired += expired
	var old []flow.Raw
	err = s.eachOther(func(key flow.Raw, n *sourceNumbering) {
		if unused := int32(uint32(now) - n.Used); unused > 0 && uint32(unused) > idle[policyOf(key, n)] {
			old = append(old, key)
		} else {
			present++
		}
	})
	if err != nil {
		return fmt.Errorf("sweep flows: %w", err)
	}
	for _, key := range old {
		if s.objects.FlowNumbers.Delete(key) == nil {
			s.expired++
		}
	}
	s.present = present
	if there := s.expired + present; before.FlowsStarted > there {
		s.evicted = max(s.evicted, before.FlowsStarted-there)
	}
	if err := s.forgetEchoes(); err != nil {
		return fmt.Errorf("sweep round trips: %w", err)
	}
	return s.forgetPaths(now, uint64(pathTime/tick))
}

// idleTicks returns after how many ticks a flow is idle, by policy. The last element is for a flow
// whose policy is not known: the longest time, which flows of policies that have ended get, too.
func (s *Source) idleTicks(tick time.Duration) (ticks [PoliciesMax + 1]uint32) {
	longest := s.longestIdle()
	for i := range ticks {
		ticks[i] = uint32(min(longest/tick, math.MaxInt32))
	}
	for _, index := range s.places {
		ticks[index] = uint32(min(time.Duration(s.variants[index].policy.Idle)/tick, math.MaxInt32))
	}
	return ticks
}

// policyOf is number_policy of number.h, PoliciesMax where it is not known.
func policyOf(key flow.Raw, numbers *sourceNumbering) int {
	if key.Zero != 0 {
		return int(key.Zero - 1)
	}
	if numbers.Judgement == 0 {
		return PoliciesMax
	}
	return int(numbers.Judgement>>44) % PoliciesMax
}

// sweepSlots has the kernel remove idle flows from the slots.
func (s *Source) sweepSlots(idle [PoliciesMax + 1]uint32) (expired, present uint64, err error) {
	if err := s.objects.SweepIdle.Set([PoliciesMax]uint32(idle[:PoliciesMax])); err != nil {
		return 0, 0, err
	}
	if _, err := s.objects.SourceSweep.Run(&ebpf.RunOptions{}); err != nil {
		return 0, 0, err
	}
	var gone, left uint32
	err = errors.Join(s.objects.SweepExpired.Get(&gone), s.objects.SweepPresent.Get(&left))
	return uint64(gone), uint64(left), err
}

// pathTime is how long a path MTU that a router reported is used (RFC 8201, section 4).
const pathTime = 10 * time.Minute

func (s *Source) forgetPaths(now, ticks uint64) error {
	var key sourcePath
	var limit sourcePathLimit
	var old []sourcePath
	held := false // for some time, which may be over; TCP notices it by itself
	entries := s.objects.Paths.Iterate()
	for entries.Next(&key, &limit) {
		held = held || limit.Held != 0
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
	if held {
		if err := s.revalidate(); err != nil {
			return err
		}
	}
	if err := entries.Err(); err != nil && !errors.Is(err, ebpf.ErrIterationAborted) {
		return fmt.Errorf("forget paths: %w", err)
	}
	return nil
}
