package codec_test

import (
	"math"
	"math/big"
	"math/bits"
	"math/rand/v2"
	"testing"
	"time"

	"pillion.dev/wire/test/codec"
)

// deltaOf is the method of the BPF programs, in integers of 64 bits: a nanosecond is
// 5^9 * 2^9 attoseconds. It holds up to 9.4e12 ns (2.6 h).
func deltaOf(ns uint64) codec.Delta {
	value, scale := ns*1953125, 9
	if bits := bits.Len64(value); bits > 16 {
		value, scale = value>>(bits-16), 9+bits-16
	}
	return codec.Delta{Scale: uint8(scale), Value: uint16(value)}
}

// nanosecondsOf is the other direction, for scales that deltaOf returns.
func nanosecondsOf(d codec.Delta) uint64 {
	return uint64(d.Value) << (d.Scale - 9) / 1953125
}

// TestDeltas compares that method with attoseconds in arbitrary precision.
func TestDeltas(t *testing.T) {
	const longest = math.MaxUint64 / 1953125
	check := func(ns uint64) {
		t.Helper()
		got, want := deltaOf(ns), codec.DeltaOf(time.Duration(ns))
		exact := func(d codec.Delta) *big.Int { return new(big.Int).Lsh(big.NewInt(int64(d.Value)), uint(d.Scale)) }
		// Below 2^16 * 2^9 attoseconds scales differ, since one begins at 9: then the value is rounded down to 512.
		lost := new(big.Int).Sub(exact(want), exact(got))
		if want.Scale >= 9 && got != want || lost.Sign() < 0 || lost.Cmp(big.NewInt(1<<9)) >= 0 {
			t.Fatalf("%d ns: %+v, want %+v", ns, got, want)
		}
		if back, want := nanosecondsOf(got), got.Duration(); back != uint64(want) {
			t.Fatalf("%+v is %d ns, want %d", got, back, want)
		}
		if want.Duration() > time.Duration(ns) || float64(ns)-float64(want.Duration()) > 1+float64(ns)/(1<<15) {
			t.Fatalf("%d ns came back as %d", ns, want.Duration())
		}
	}
	for shift := range 44 {
		for off := -1; off <= 1; off++ {
			if ns := int64(1)<<shift + int64(off); ns <= longest {
				check(uint64(ns))
			}
		}
	}
	check(longest)
	random := rand.New(rand.NewPCG(8250, 0))
	for range 100_000 {
		check(random.Uint64N(longest) >> random.IntN(44))
	}
}

func TestDeltaTable(t *testing.T) {
	for _, test := range []struct {
		name  string
		delta time.Duration
		want  codec.Delta
		back  time.Duration
	}{
		{"none", 0, codec.Delta{}, 0},
		{"negative", -1, codec.Delta{}, 0},
		{"1 ns", 1, codec.Delta{Scale: 0x0e, Value: 0xee6b}, 0},
		{"20 µs", 20 * time.Microsecond, codec.Delta{Scale: 0x1d, Value: 0x9184}, 19999},
		{"4 ms", 4 * time.Millisecond, codec.Delta{Scale: 0x24, Value: 0xe35f}, 3_999_954},
		{"1 s", time.Second, codec.Delta{Scale: 0x2c, Value: 0xde0b}, 999_992_631},
		{"longest", math.MaxInt64, codec.Delta{Scale: 0x4d, Value: 0xee6b}, 9223348425022361459},
	} {
		got := codec.DeltaOf(test.delta)
		if got != test.want {
			t.Errorf("%s: %#v, want %#v", test.name, got, test.want)
		}
		if back := got.Duration(); back != test.back {
			t.Errorf("%s came back as %d", test.name, back)
		}
	}
	if got := (codec.Delta{Scale: 255, Value: 1}).Duration(); got != math.MaxInt64 {
		t.Errorf("2^255 attoseconds are %v", got)
	}
}
