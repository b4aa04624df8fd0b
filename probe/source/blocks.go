package source

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"pillion.dev/probe/block"
	"pillion.dev/wire"
)

// ErrBlocks refuses marks that carry a block together with other settings.
var ErrBlocks = errors.New("blocks of packets")

// hasBlocks reports whether some marks carry the block of their packet.
func (p *Policy) hasBlocks() bool {
	return slices.ContainsFunc(p.Encodings, func(e wire.Encoding) bool { return e.Carries()&wire.CarriesBlock != 0 })
}

func (p *Policy) checkBlocks() error {
	if !p.hasBlocks() {
		return nil
	}
	if p.Block != 0 {
		if err := block.Check(time.Duration(p.Block)); err != nil {
			return err
		}
	}
	if !p.Sampling.All() { // all packets of a block have its colour
		return fmt.Errorf("%w (%v) cannot be combined with sampling", ErrBlocks, wire.AltMark)
	}
	return nil
}

// Blocks returns what was sent in blocks that are over and were not read before, by flow, and how
// many blocks could not be read since Open, as it was called too late. Call it at least once in two blocks.
func (s *Source) Blocks() (counts []block.Count, missed uint64, err error) {
	s.tables.Lock()
	defer s.tables.Unlock()
	s.blocks.Idle = s.longestIdle()
	counts, _, err = s.blocks.Read(s.objects.ModuleStates, s.clock.Now(), time.Duration(s.variants[s.places[0]].policy.Block))
	return counts, s.blocks.Missed, err
}

// BlocksEvery is how often to call Blocks; 0: no marks carry blocks.
func (s *Source) BlocksEvery() (every time.Duration) {
	for _, place := range s.places {
		if p := s.variants[place].policy; p.hasBlocks() && (every == 0 || time.Duration(p.Block) < every) {
			every = time.Duration(p.Block)
		}
	}
	return every / 2
}
