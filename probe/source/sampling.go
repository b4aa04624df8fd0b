package source

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"pillion.dev/wire"
)

// ErrSampling marks an invalid sampling.
var ErrSampling = errors.New("bad sampling")

// Sampling chooses among the packets that can be marked (PSAMP, RFC 5475); a packet must
// pass all that are set. The zero value takes every packet. A segmentation buffer
// counts as one packet.
type Sampling struct {
	// Every takes one in so many, counted in each flow from a random packet on.
	Every uint32 `json:"every"`
	// Random takes one in so many with equal probability.
	Random uint32 `json:"random"`
	// Hash takes one in so many by a hash of addresses, ports, protocol and content, so
	// that sources with the same seed take the same packets. Packets that are equal in all
	// of these are all taken or all left out.
	Hash uint32 `json:"hash"`
	// HashSeed is any text; another one makes the choice independent. It is no secret: who
	// knows it can tell which packets are chosen.
	HashSeed string `json:"hash_seed"`
	// MinGap takes at most one in this time.
	MinGap time.Duration `json:"min_gap"`
}

// hashKey is the key of the hash, from a seed.
func hashKey(seed string) wire.Key {
	sum := sha256.Sum256([]byte("pillion-sampling:" + seed))
	return wire.Key(sum[:len(wire.Key{})])
}

// all says whether no packet is left out.
func (s Sampling) all() bool {
	return s.Every <= 1 && s.Random <= 1 && s.Hash <= 1 && s.MinGap == 0
}

// threshold is the part of all 32-bit values that one in n is; 0 if that is all of them.
func threshold(n uint32) uint32 {
	if n <= 1 {
		return 0
	}
	return uint32(math.Round(float64(1<<32) / float64(n)))
}

// Sample changes the sampling while traffic flows. Sequence numbers continue. Where there are
// several policies, SetPolicies changes theirs.
func (s *Source) Sample(sampling Sampling) error {
	place := s.places[0]
	switch {
	case len(s.places) > 1:
		return fmt.Errorf("set sampling: %w: each of %d has its own", ErrPolicies, len(s.places))
	case sampling.MinGap < 0:
		return fmt.Errorf("set sampling: %w: gap %v is negative", ErrSampling, sampling.MinGap)
	case s.variants[place].policy.Sparse && !sampling.all():
		return fmt.Errorf("set sampling: %w cannot be combined with sampling", ErrSparse)
	case hasBlocks(s.settings.By(s.variants[place].policy)) && !sampling.all():
		return fmt.Errorf("set sampling: %w", checkBlocksSampling(sampling))
	}
	samplings := s.samplings
	samplings[place] = sampling
	if err := s.setSamplings(samplings, place); err != nil {
		return fmt.Errorf("set sampling: %w", err)
	}
	return nil
}

// setSamplings writes the samplings of all policies. Changed ones, and the policies in anew, begin
// anew: the end of an old gap is no longer valid.
func (s *Source) setSamplings(samplings [PoliciesMax]Sampling, anew ...int) error {
	var raw [PoliciesMax]sourceSampling
	var next [PoliciesMax]uint64
	var on uint32
	if err := s.objects.SampleNextNs.Get(&next); err != nil {
		return err
	}
	for i, sampling := range samplings {
		raw[i].Seed.Words = hashKey(sampling.HashSeed).Words()
		raw[i].GapNs, raw[i].Every = uint64(sampling.MinGap), sampling.Every
		raw[i].Random, raw[i].Hashed = threshold(sampling.Random), threshold(sampling.Hash)
		if sampling != s.samplings[i] || slices.Contains(anew, i) {
			next[i] = 0
		}
		if !sampling.all() {
			on |= 1 << i
		}
	}
	err := errors.Join(s.objects.Samplings.Set(raw), s.objects.SampleNextNs.Set(next), s.objects.SampledPolicies.Set(on))
	if err == nil {
		s.samplings = samplings
	}
	return err
}
