package authority

import (
	"crypto/rand"
	"encoding/binary"
	"math/big"
)

// The serial number of an agent's certificate has 20 octets (RFC 5280, the most): a mark,
// the generation, and random ones. Later certificates of an agent have higher generations:
// they begin with the time in nanoseconds.
const (
	serialMark   = 0x50
	serialLength = 20
)

// serialOf returns a serial number with a generation.
func serialOf(generation uint64) *big.Int {
	bytes := make([]byte, serialLength)
	rand.Read(bytes) // never fails
	bytes[0] = serialMark
	binary.BigEndian.PutUint64(bytes[1:], generation)
	return new(big.Int).SetBytes(bytes)
}

// Generation returns the generation of a certificate by its serial number, hexadecimal.
func Generation(serial string) uint64 {
	number, ok := new(big.Int).SetString(serial, 16)
	if !ok || number.Sign() < 0 || number.BitLen() > 8*serialLength {
		return 0
	}
	bytes := number.FillBytes(make([]byte, serialLength))
	if bytes[0] != serialMark {
		return 0
	}
	return binary.BigEndian.Uint64(bytes[1:])
}

// nextGeneration is above the generations of all certificates of the agent that the registry
// or a revocation knows, even if the clock was set back.
func (a *Authority) nextGeneration(name string) uint64 {
	least, _ := a.revocations.through(name)
	if agents, err := a.registry(); err == nil {
		least = max(least, agents.Generation(name))
	}
	return max(least+1, uint64(a.options.Now().UnixNano()))
}
