package codec

import (
	"encoding/binary"
	"math/bits"
)

// A Key of SipHash: two words of 64 bits in little-endian order.
type Key [16]byte

// sipState is the state of SipHash-2-4 (Aumasson, Bernstein 2012).
type sipState [4]uint64

// SipHash returns the SipHash-2-4 of a message.
func (k Key) SipHash(message []byte) uint64 {
	k0, k1 := binary.LittleEndian.Uint64(k[:]), binary.LittleEndian.Uint64(k[8:])
	v := sipState{k0 ^ 0x736f6d6570736575, k1 ^ 0x646f72616e646f6d, k0 ^ 0x6c7967656e657261, k1 ^ 0x7465646279746573}
	whole := len(message) &^ 7
	for at := 0; at < whole; at += 8 {
		v.add(binary.LittleEndian.Uint64(message[at:]))
	}
	last := [8]byte{7: byte(len(message))}
	copy(last[:7], message[whole:])
	v.add(binary.LittleEndian.Uint64(last[:]))
	v[2] ^= 0xff
	v.rounds(4)
	return v[0] ^ v[1] ^ v[2] ^ v[3]
}

// add hashes one word of the message.
func (v *sipState) add(word uint64) {
	v[3] ^= word
	v.rounds(2)
	v[0] ^= word
}

func (v *sipState) rounds(n int) {
	for range n {
		v[0] += v[1]
		v[2] += v[3]
		v[1] = bits.RotateLeft64(v[1], 13) ^ v[0]
		v[3] = bits.RotateLeft64(v[3], 16) ^ v[2]
		v[0] = bits.RotateLeft64(v[0], 32)
		v[2] += v[1]
		v[0] += v[3]
		v[1] = bits.RotateLeft64(v[1], 17) ^ v[2]
		v[3] = bits.RotateLeft64(v[3], 21) ^ v[0]
		v[2] = bits.RotateLeft64(v[2], 32)
	}
}
