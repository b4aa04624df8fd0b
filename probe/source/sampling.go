package source

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"slices"

	"pillion.dev/wire"
)

// ErrSampling marks an invalid sampling.
var ErrSampling = errors.New("bad sampling")

// hashKey is the key of the hash, from a seed.
func hashKey(seed string) wire.Key {
	sum := sha256.Sum256([]byte("pillion-sampling:" + seed))
	return wire.Key(sum[:len(wire.Key{})])
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
func (s *Source) Sample(sampling wire.Sampling) error {
	place := s.places[0]
	p := s.variants[place].policy
	p.Sampling = sampling
	if len(s.places) > 1 {
		return fmt.Errorf("set sampling: %w: each of %d has its own", ErrPolicies, len(s.places))
	}
	if err := p.check(); err != nil {
		return fmt.Errorf("set sampling: %w", err)
	}
	samplings := s.samplings
	samplings[place] = sampling
	if err := s.setSamplings(samplings, place); err != nil {
		return fmt.Errorf("set sampling: %w", err)
	}
	return nil
}

// setSamplings writes the samplings of all policies. The gaps of samplings that change, and of the policies in
// anew, start over: the end of an old gap no longer applies.
func (s *Source) setSamplings(samplings [PoliciesMax]wire.Sampling, anew ...int) error {
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
		if !sampling.All() {
			on |= 1 << i
		}
	}
	err := errors.Join(s.objects.Samplings.Set(raw), s.objects.SampleNextNs.Set(next), s.objects.SampledPolicies.Set(on))
	if err == nil {
		s.samplings = samplings
	}
	return err
}
