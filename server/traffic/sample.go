package traffic

import (
	"pillion.dev/session"
)

// Sampling knows how sessions select packets.
type Sampling struct {
	specs map[string]session.Spec
}

// NewSampling knows these sessions.
func NewSampling(specs []session.Spec) Sampling {
	s := Sampling{specs: make(map[string]session.Spec, len(specs))}
	for _, spec := range specs {
		s.specs[spec.Name] = spec
	}
	return s
}

// of returns n if a source marks one packet in n for a session. It is not known of sessions that were deleted, nor with a minimum gap.
func (s Sampling) of(name, source string) (n float64, known bool) {
	spec, exists := s.specs[name]
	if !exists {
		return 1, false
	}
	sampling := spec.SamplingOf(source)
	return float64(max(1, sampling.Every, sampling.Random, sampling.Hash)), sampling.MinGap == 0
}

// together returns n of the packets that several sessions of a source mark, one of which counts: they are sampled as densely as the
// densest asks. If they do not agree, n is known only while all of them run.
func (s Sampling) together(names []string, source string) (n float64, known bool) {
	for i, name := range names {
		one, sure := s.of(name, source)
		if i == 0 {
			n, known = one, sure
			continue
		}
		known = known && sure && one == n
		n = min(n, one)
	}
	return max(1, n), known
}
