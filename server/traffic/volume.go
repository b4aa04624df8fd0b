// Package traffic makes traffic matrices: how many packets and bytes of the measured flows each pair of hosts, or of groups of
// them, exchanged. What a session samples is scaled up, with the uncertainty that this has.
//
// It decides neither which rows count, which the archive does, nor who may ask. In the flow it stands between the
// archive's sums and the API.
package traffic

import (
	"cmp"
	"math"
	"slices"

	"pillion.dev/archive"
	"pillion.dev/measure/flows"
	"pillion.dev/measure/histogram"
)

// Scaling says how estimates relate to what was measured.
type Scaling string

const (
	// Measured: all packets were counted; the estimates are the counts.
	Measured Scaling = "measured"
	// Scaled: one packet in N was counted, and the estimates are N times the counts.
	Scaled Scaling = "scaled"
	// LowerBound: of some packets it is not known how many were left out; these are counted as measured.
	LowerBound Scaling = "lower_bound"
)

// Volume is what was received of flows put together.
type Volume struct {
	flows.Flow
	// Packets and Bytes were counted.
	Packets, Bytes uint64
	// EstimatedPackets and EstimatedBytes are scaled by sampling. Half of a 95 % interval is PacketsError; for bytes it is at most BytesError,
	// since only the largest size of packets is known.
	EstimatedPackets, EstimatedBytes float64
	PacketsError, BytesError         float64
	Scaling                          Scaling
}

// z is the normal quantile of 95 % intervals.
const z = 1.959963984540054

// sizeMost is the largest IP packet, bytes.
const sizeMost = math.MaxUint16

// sum adds up volumes of different samples.
type sum struct {
	Volume
	packetsVariance, bytesVariance float64
	// scaled and bounded: some part is.
	scaled, bounded bool
}

// add takes what a pair of hosts exchanged. Of packets selected independently with probability 1/N, the estimate N n has the variance
// N (N-1) n, and the estimate of bytes N (N-1) times the sum of the squares of sizes, which is at most the largest size times the bytes.
// Selection by count is at least as exact unless it coincides with a period of the traffic.
func (s *sum) add(v *archive.Volume, n float64, known bool, largest float64) {
	packets, bytes := float64(v.Packets), float64(v.Bytes)
	s.Packets, s.Bytes = histogram.Sum(s.Packets, v.Packets), histogram.Sum(s.Bytes, v.Bytes)
	s.EstimatedPackets += n * packets
	s.EstimatedBytes += n * bytes
	s.packetsVariance += n * (n - 1) * packets
	s.bytesVariance += n * (n - 1) * bytes * min(largest, bytes)
	s.scaled, s.bounded = s.scaled || n > 1, s.bounded || !known
}

func (s *sum) volume() Volume {
	v := s.Volume
	v.PacketsError, v.BytesError = z*math.Sqrt(s.packetsVariance), z*math.Sqrt(s.bytesVariance)
	switch {
	case s.bounded:
		v.Scaling = LowerBound
	case s.scaled:
		v.Scaling = Scaled
	default:
		v.Scaling = Measured
	}
	return v
}

// Orders of volumes, largest first.
const (
	ByBytes   = "bytes"
	ByPackets = "packets"
)

// inOrder sorts volumes by an estimate, those that are equal by their names.
func inOrder(volumes []Volume, order string) {
	value := func(v *Volume) float64 {
		if order == ByPackets {
			return v.EstimatedPackets
		}
		return v.EstimatedBytes
	}
	slices.SortFunc(volumes, func(a, b Volume) int {
		return cmp.Or(cmp.Compare(value(&b), value(&a)), cmp.Compare(a.Src, b.Src), cmp.Compare(a.Dst, b.Dst),
			cmp.Compare(a.Proto, b.Proto), cmp.Compare(a.Sport, b.Sport), cmp.Compare(a.Dport, b.Dport))
	})
}
