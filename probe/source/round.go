package source

import (
	"errors"
	"fmt"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"pillion.dev/probe/flow"
	"pillion.dev/probe/table"
	"pillion.dev/wire"
)

// A Span is what became of several durations.
type Span struct {
	Sum, Min, Max time.Duration
}

// Round is the round trips of a flow by PDM: packets of it whose first answer came.
type Round struct {
	// Key is the flow as it is sent from here.
	Key   flow.Key
	Count uint64
	// Round is from the departure of a packet to the arrival of its answer. The other host
	// kept it for Host of that; the rest is Network.
	Round, Host, Network Span
	// Uncertainty is by how much a duration of Host may be too small, as PDM carries 16 bits of it.
	Uncertainty time.Duration
	// Strange are answers which say that the host kept them longer than the round trip took; they
	// are in nothing else.
	Strange uint64
}

// Add puts other round trips of the flow into these.
func (r *Round) Add(o Round) {
	if o.Count > 0 {
		first := r.Count == 0
		r.Round.add(o.Round, first)
		r.Host.add(o.Host, first)
		r.Network.add(o.Network, first)
	}
	r.Count += o.Count
	r.Strange += o.Strange
	r.Uncertainty = max(r.Uncertainty, o.Uncertainty)
}

func (s *Span) add(o Span, first bool) {
	s.Sum += o.Sum
	if first {
		s.Min, s.Max = o.Min, o.Max
		return
	}
	s.Min, s.Max = min(s.Min, o.Min), max(s.Max, o.Max)
}

// Mean of so many durations.
func (s Span) Mean(count uint64) time.Duration {
	if count == 0 {
		return 0
	}
	return s.Sum / time.Duration(count)
}

func spanOf(s sourceSpan) Span {
	return Span{time.Duration(s.Sum), time.Duration(s.Min), time.Duration(s.Max)}
}

// echoBatch is how many flows one system call reads.
const echoBatch = 1024

// Rounds returns the round trips since the last call of the flows that had any.
func (s *Source) Rounds() ([]Round, error) {
	s.tables.Lock()
	defer s.tables.Unlock()
	var interval uint64
	if err := s.objects.RoundInterval.Get(&interval); err != nil {
		return nil, fmt.Errorf("read round trips: %w", err)
	}
	// A packet enters its round trip under the lock of the flow, in the interval that it reads there.
	if err := s.objects.RoundInterval.Set(interval + 1); err != nil {
		return nil, fmt.Errorf("read round trips: %w", err)
	}
	var rounds []Round
	err := s.eachEcho(func(key flow.Raw, e *sourceEcho) {
		r := &e.Rounds[interval&1]
		if r.Interval != interval || r.Count+r.Strange == 0 {
			return
		}
		rounds = append(rounds, Round{
			Key: key.Key(), Count: r.Count, Strange: r.Strange, Uncertainty: time.Duration(r.Unit),
			Round: spanOf(r.Round), Host: spanOf(r.Host), Network: spanOf(r.Network),
		})
	})
	if err != nil {
		return nil, fmt.Errorf("read round trips: %w", err)
	}
	return rounds, nil
}

// eachEcho passes on the flows with packets in PDM.
func (s *Source) eachEcho(take func(flow.Raw, *sourceEcho)) error {
	return table.Each(s.objects.Echoes, echoBatch, &ebpf.BatchOptions{ElemFlags: uint64(ebpf.LookupLock)}, take)
}

// longestIdle is the longest of the policies' idle times.
func (s *Source) longestIdle() time.Duration {
	longest := wire.Duration(0)
	for _, index := range s.places {
		longest = max(longest, s.variants[index].policy.Idle)
	}
	return time.Duration(longest)
}

// forgetEchoes removes flows without a packet in either direction for longer than any policy keeps idle ones.
func (s *Source) forgetEchoes() error {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return err
	}
	var idle []flow.Raw
	longest := s.longestIdle()
	err := s.eachEcho(func(key flow.Raw, e *sourceEcho) {
		if time.Duration(now.Nano()-int64(max(e.ReceivedNs, e.SentNs))) > longest {
			idle = append(idle, key)
		}
	})
	for _, key := range idle {
		if gone := s.objects.Echoes.Delete(key); gone != nil && !errors.Is(gone, ebpf.ErrKeyNotExist) {
			err = errors.Join(err, gone)
		}
	}
	return err
}
