package wire

import "fmt"

// Sampling selects which of the matching packets are marked (PSAMP, RFC 5475). The zero
// value selects all.
type Sampling struct {
	// Every marks one in N packets of each flow, by count; not with random or hash.
	Every uint32 `json:"every,omitempty" yaml:"every,omitempty" placeholder:"N" help:"Mark one packet in N of each flow, by count."`
	// Random marks one in N packets, at random; not with every or hash.
	Random uint32 `json:"random,omitempty" yaml:"random,omitempty" placeholder:"N" help:"Mark one packet in N, at random."`
	// Hash marks one in N packets by a hash of addresses, ports and content, so that
	// sources with the same seed select the same packets; not with every or random.
	Hash uint32 `json:"hash,omitempty" yaml:"hash,omitempty" placeholder:"N" help:"Mark one packet in N by a hash of addresses, ports and content: sources with the same seed select the same packets."`
	// HashSeed is any text, empty by default: sources with the same one select the same packets.
	HashSeed string `json:"hash_seed,omitempty" yaml:"hash_seed,omitempty" placeholder:"TEXT" help:"Seed of the hash: with another text, the selection is independent."`
	// MinGap is the minimum time between two packets that are marked on an interface of a source,
	// whatever their flow; sessions that mark in different ways count separately.
	MinGap Duration `json:"min_gap,omitzero" yaml:"min_gap,omitempty" placeholder:"TIME" help:"Minimum time between two packets that are marked on an interface, whatever their flow, such as 100us."`
}

// String describes which packets are marked.
func (s Sampling) String() string {
	text := "all packets"
	switch {
	case s.Every > 1:
		text = fmt.Sprintf("one in %d packets", s.Every)
	case s.Random > 1:
		text = fmt.Sprintf("one in %d packets at random", s.Random)
	case s.Hash > 1:
		text = fmt.Sprintf("one in %d packets by content", s.Hash)
		if s.HashSeed != "" {
			text += fmt.Sprintf(" with seed %q", s.HashSeed)
		}
	}
	if s.MinGap > 0 {
		text += fmt.Sprintf(", at most one per %v", s.MinGap)
	}
	return text
}

// Unite returns a sampling that selects as many packets as each of the two. Where packets are
// selected by their content it selects those that either selects, since other points select the
// same ones: all packets, unless the two differ in how many only.
func (s Sampling) Unite(o Sampling) Sampling {
	if s == o {
		return s
	}
	if (s.Hash > 1 || o.Hash > 1) && !s.nested(o) {
		return Sampling{}
	}
	gap := min(s.MinGap, o.MinGap)
	if o.oneIn() < s.oneIn() {
		s = o
	}
	s.MinGap = gap
	return s
}

// nested reports whether of two selections by content one contains the other.
func (s Sampling) nested(o Sampling) bool {
	if s.MinGap == 0 || o.MinGap == 0 {
		s.MinGap, o.MinGap = 0, 0
	}
	bare := Sampling{HashSeed: s.HashSeed, MinGap: s.MinGap}
	s.Hash, o.Hash = 0, 0
	return s == bare && o == bare
}

// oneIn is how many packets there are for each selected one, without regard to MinGap.
func (s Sampling) oneIn() uint64 {
	return uint64(max(s.Every, 1)) * uint64(max(s.Random, 1)) * uint64(max(s.Hash, 1))
}

// All reports whether no packet is left out.
func (s Sampling) All() bool { return s.oneIn() == 1 && s.MinGap == 0 }

// Plain is the sampling in its simplest form: one packet in one is all packets, for which a seed has no meaning.
func (s Sampling) Plain() Sampling {
	if s.Every == 1 {
		s.Every = 0
	}
	if s.Random == 1 {
		s.Random = 0
	}
	if s.Hash <= 1 {
		s.Hash, s.HashSeed = 0, ""
	}
	return s
}
