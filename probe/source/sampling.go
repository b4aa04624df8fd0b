package source

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// ErrSampling marks an invalid sampling.
var ErrSampling = errors.New("bad sampling")

// Sampling chooses among the packets that match (PSAMP, RFC 5475); a packet must
// pass all that are set. The zero value takes every packet. A segmentation buffer
// counts as one packet.
type Sampling struct {
	// Every takes one in so many, counted on each CPU.
	Every uint32 `json:"every"`
	// Random takes one in so many with equal probability.
	Random uint32 `json:"random"`
	// MinGap takes at most one in this time.
	MinGap time.Duration `json:"min_gap"`
}

// all says whether no packet is left out.
func (s Sampling) all() bool { return s.Every <= 1 && s.Random <= 1 && s.MinGap == 0 }

// Sample changes the sampling while traffic flows. Sequence numbers continue.
func (s *Source) Sample(sampling Sampling) error {
	if sampling.MinGap < 0 {
		return fmt.Errorf("set sampling: %w: gap %v is negative", ErrSampling, sampling.MinGap)
	}
	if s.sparse && !sampling.all() {
		return fmt.Errorf("set sampling: %w cannot be combined with sampling", ErrSparse)
	}
	var threshold uint32
	if sampling.Random > 1 {
		threshold = uint32(math.Round(float64(1<<32) / float64(sampling.Random)))
	}
	err := errors.Join(
		s.objects.SampleEvery.Set(sampling.Every),
		s.objects.SampleRandom.Set(threshold),
		s.objects.SampleGapNs.Set(uint64(sampling.MinGap)),
		s.objects.SampleNextNs.Set(uint64(0)), // the end of the old gap says nothing any more
	)
	if err != nil {
		return fmt.Errorf("set sampling: %w", err)
	}
	return nil
}
