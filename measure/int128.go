package measure

import (
	"math"
	"math/bits"
)

// int128 is a sum in two's complement. It cannot overflow: that would take 2^63
// values of 64 bits.
type int128 struct{ high, low uint64 }

func (s *int128) addUnsigned(v uint64) {
	var carry uint64
	s.low, carry = bits.Add64(s.low, v, 0)
	s.high += carry
}

func (s *int128) addSigned(v int64) {
	var carry uint64
	s.low, carry = bits.Add64(s.low, uint64(v), 0)
	s.high += uint64(v>>63) + carry
}

func (s int128) negative() bool { return int64(s.high) < 0 }

// int64 is the nearest int64, and whether it is another number.
func (s int128) int64() (int64, bool) {
	switch {
	case s.high == uint64(int64(s.low)>>63):
		return int64(s.low), false
	case s.negative():
		return math.MinInt64, true
	}
	return math.MaxInt64, true
}

// uint64 is the nearest uint64, and whether it is another number.
func (s int128) uint64() (uint64, bool) {
	switch {
	case s.high == 0:
		return s.low, false
	case s.negative():
		return 0, true
	}
	return math.MaxUint64, true
}

// float is rounded twice at most.
func (s int128) float() float64 {
	if !s.negative() {
		return float64(s.high)*0x1p64 + float64(s.low)
	}
	low, borrow := bits.Sub64(0, s.low, 0)
	high, _ := bits.Sub64(0, s.high, borrow)
	return -(float64(high)*0x1p64 + float64(low))
}
