package wire

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"net/netip"
)

// SealLength is the length of the seal that follows a path probe, in bytes: the number of the
// key (8, big-endian) and a tag (16). A probe without a seal has zeros there, or ends before it.
const SealLength = 8 + sealTag

const sealTag = 16

// A ProbeKey authenticates path probes, so that an answer proves which agent sent it. The number of
// the key and the key of the MAC are derived from a secret that the two agents share. The tag is an
// HMAC-SHA-256 (RFC 2104) truncated to 128 bits.
type ProbeKey struct {
	number uint64
	mac    []byte
}

// NewProbeKey derives the key from a secret.
func NewProbeKey(secret []byte) ProbeKey {
	derive := func(label string) []byte {
		h := hmac.New(sha256.New, secret)
		h.Write([]byte(label))
		return h.Sum(nil)
	}
	return ProbeKey{binary.BigEndian.Uint64(derive("pillion path probe number")) | 1, derive("pillion path probe")}
}

// Number identifies the key; it is not secret.
func (k ProbeKey) Number() uint64 { return k.number }

// Seal appends the seal to a probe. The address is the probe's destination, and agent is the name of
// the agent that is expected there.
func (k ProbeKey) Seal(probe []byte, address netip.Addr, agent string) []byte {
	tag := k.tag(probe, address, agent)
	return append(binary.BigEndian.AppendUint64(probe, k.number), tag[:]...)
}

// Verify reports whether a datagram is a probe with the seal of this key.
func (k ProbeKey) Verify(datagram []byte, address netip.Addr, agent string) bool {
	if SealNumber(datagram) != k.number || k.mac == nil {
		return false
	}
	tag := k.tag(datagram[:ProbeLength], address, agent)
	return hmac.Equal(tag[:], datagram[ProbeLength+8:ProbeLength+SealLength])
}

// SealNumber returns the number of the key with which a datagram is sealed, or 0 if it has no seal.
func SealNumber(datagram []byte) uint64 {
	if len(datagram) < ProbeLength+SealLength {
		return 0
	}
	return binary.BigEndian.Uint64(datagram[ProbeLength:])
}

// tag returns the tag over the probe, the destination address and the agent's name. It leaves out the
// bytes of a question that a destination program rewrites on the way.
func (k ProbeKey) tag(probe []byte, address netip.Addr, agent string) (tag [sealTag]byte) {
	h := hmac.New(sha256.New, k.mac)
	fixed := [ProbeLength]byte(probe)
	if fixed[8] == probeQuestion {
		clear(fixed[4:8]) // read and balance
	}
	h.Write(fixed[:])
	to := address.Unmap().WithZone("").As16()
	h.Write(to[:])
	h.Write([]byte(agent))
	copy(tag[:], h.Sum(nil))
	return tag
}
