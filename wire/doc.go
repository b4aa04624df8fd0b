// Package wire holds the byte layouts that travel inside packets: a small mark
// that a source writes into packets which leave anyway and that a destination
// reads and takes out again. wire.h is the C definition that the BPF programs
// include; this package is its twin in Go, and the golden vectors in testdata
// bind the two. It encodes, decodes and does the packet surgery on whole IP
// packets; it opens no socket, keeps no flow state and counts nothing. In the
// flow it comes first: probe writes and reads marks, send and session use its
// names. All integers are in network byte order.
//
// # Marks
//
// A mark carries what its [Module] set says. Delay: the time at which the
// source sent the packet, and a second time, zero until an edge fills it, at
// which the packet was received. Both are NTP 64-bit timestamps (RFC 5905).
// Loss: a 31-bit sequence number and the single bit.
//
// # IPv6: a Destination Options header
//
// The native encoding puts a Destination Options header (RFC 8200, section
// 4.6) between the fixed header and what followed it, or after a Hop-by-Hop
// Options header where there is one. The option types are experimental ones of
// RFC 4727 whose two top bits are 00: a host that does not know them skips
// them and the packet still arrives.
//
//	delay       next 02 3e 10 sent(8) received(8) 01 02 00 00
//	loss        next 00 1e 04 single|sequence(4)
//	delay,loss  next 03 3e 10 sent(8) received(8) 1e 04 single|sequence(4) 01 04 00 00 00 00
//
// A packet that already has a Destination Options, Routing, Fragment or
// Authentication header is refused.
//
// # IPv4: a shim
//
// The shim has a head of four bytes, then data; type is the sum of the module
// bits, length counts the data, flags are zero and ignored by a reader.
//
//	delay       01 next 10 flags sent(8) received(8)
//	loss        02 next 04 flags single|sequence(4)
//	delay,loss  03 next 14 flags sent(8) received(8) single|sequence(4)
//
// The [Encoding] says where it goes:
//
//	shim  IP(253) shim L4          protocol 253 is for experiments (RFC 3692, RFC 4727)
//	ipip  IP(4) IP(253) shim L4    outer header as in RFC 2003
//	udp   IP(17) UDP shim(4) IP L4 the inner packet is whole and unchanged
//
// The outer header has no options and copies the inner one's addresses, TOS,
// TTL, identification and DF. The UDP checksum is zero; the UDP source port is
// 0xC000 plus 14 bits of a hash of the inner five-tuple, so that a flow keeps
// one path where routers balance by ports. Any hash will do and no reader may
// depend on which (here: FNV-1a). Fragments are refused, and so are IPv4
// header options except in udp, which carries them inside.
//
// # Sequence numbers and the single bit
//
// A sequence number counts packets on the wire. Where the source marks, a
// buffer may still be waiting for segmentation into n packets; such a burst
// takes n numbers and carries the first, and after segmentation all n packets
// carry the same mark. The destination counts packets per first number, and
// the next first number tells how many there should have been.
//
// That alone is ambiguous. Two arrivals of number F, followed by F+2, are
// either a burst of two that arrived whole, or a single packet F that was
// duplicated while F+1 was lost. So a packet that left as one packet has the
// single bit: its number belongs to it alone, a second arrival is a duplicate,
// and a number that never arrives is lost. Without the bit, a million single
// packets with independent loss and duplication of 1 % each hide about a
// hundred losses and as many duplicates; with it both counts are exact up to
// the last arrival. For bursts the ambiguity stays: losses and duplicates
// between one first number and the next cancel each other.
//
// # Flow stride
//
// A flow's first number is a random multiple of [FlowStride], modulo 2^31. A
// source that forgot a flow and began it again thus almost always jumps far,
// to a multiple of the stride, and the destination can start a new count
// instead of reporting tens of thousands of losses.
//
// # What a reader accepts
//
// Parsing is strict: exactly the layouts above count as a mark, padding
// included. Errors say which of three things happened: [ErrNotMark] for what
// is somebody else's, [ErrMalformed] for what claims to be a mark and is not
// well-formed, [ErrShort] for bytes that end too early. A Hop-by-Hop header
// after a mark is malformed too: taking the mark out would give it effect.
//
// pillion.lua shows marks in Wireshark and tshark; package vectors loads the
// golden vectors for the tests of other packages.
package wire
