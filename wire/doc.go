// Package wire names what travels inside packets: a small mark that a source
// inserts into existing traffic and that a destination reads and removes. wire.h
// is the C definition that the BPF programs include; this package has its
// names, numbers and sizes in Go. It neither reads nor writes packets: probe
// does so in BPF, and package codec below test is the reference that all
// implementations are compared with. All integers are in network byte order.
// Package fivetuple names and filters flows. The settings of marks, which specifications,
// tasks and programs share, are in [Marking].
//
// # Marks
//
// A mark carries what its [Module] set says. Delay: the time at which the
// source sent the packet, and a second time, zero until a waypoint fills it, at
// which the packet was received. Both are NTP 64-bit timestamps (RFC 5905).
// Loss: a 31-bit sequence number and the single bit. A mark with Loss may end with a tag,
// which authenticates it.
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
//	sparse      next 03 3e 10 sent(8) received(8) 1e 05 single|sequence(4) 04 01 03 00 00 00
//
// With a tag the loss option is longer by four bytes, which come out of the padding where
// there is enough of it:
//
//	loss        next 01 1e 08 single|sequence(4) tag(4) 01 02 00 00
//	delay,loss  next 03 3e 10 sent(8) received(8) 1e 08 single|sequence(4) tag(4) 01 00
//	sparse      next 03 3e 10 sent(8) received(8) 1e 09 single|sequence(4) 04 tag(4) 00
//
// A packet that already has a Destination Options, Routing, Fragment or
// Authentication header is refused.
//
// # IPv6: options of standards
//
// The ioam-e2e encoding is an edge-to-edge option of in-situ OAM (RFC 9197) in a Destination
// Options header (RFC 9486). Its fields say what follows: number (4000), time (3000) or both.
//
//	delay       next 02 01 00 11 0e 00 03 0000 3000 sent(8) 01 02 00 00
//	loss        next 01 01 00 11 0a 00 03 0000 4000 single|sequence(4)
//	delay,loss  next 02 01 00 11 12 00 03 0000 7000 single|sequence(4) sent(8)
//
// A tag follows as a module option, which is Pillion's own and which others skip:
//
//	delay,loss  next 03 01 00 11 12 00 03 0000 7000 single|sequence(4) sent(8) 3e 05 01 tag(4) 00
//
// The ioam-trace encoding has the same option in a Hop-by-Hop header, behind space that routers
// fill from its end:
//
//	delay,loss  next 10 01 00 31 6a 00 00 0000 1818 b0000000 space(96)
//	            11 12 00 03 0000 7000 single|sequence(4) sent(8) 01 02 00 00
//
// The pdm encoding is the option of Performance and Diagnostic Metrics (RFC 8250): a number of 16 bits, and
// the number and the times of the other direction. A tag covers the number.
//
//	loss        next 01 0f 0a scales(2) sequence(2) last(2) delta(2) delta(2) 01 00
//	loss        next 02 0f 0a scales(2) sequence(2) last(2) delta(2) delta(2) 3e 05 01 tag(4) 01 01 00
//
// The altmark encoding is an option of Alternate Marking (RFC 9343) in a Destination Options
// header: a random identifier of the flow, L, which alternates from block to block, and D, the packet
// of the block whose delay is measured. It has neither number nor time: both ends count the packets of each block.
//
//	            next 00 12 04 flow(20 bits)|L|D|0(10 bits)
//	tagged      next 01 12 04 flow|L|D|0 3e 05 01 tag(4) 00
//
// Such a mark belongs to one packet, except the mark of a block, and is never sparse. What others write in such options, or beside
// them, a destination reads and leaves where it is. standard.h has the layouts of more standards.
//
// # IPv4: a shim
//
// The shim has a head of four bytes, then data; type is the sum of the module
// bits, length counts the data, flags are zero and ignored by a reader.
//
//	delay       01 next 10 flags sent(8) received(8)
//	loss        02 next 04 flags single|sequence(4)
//	delay,loss  03 next 14 flags sent(8) received(8) single|sequence(4)
//	sparse      07 next 14 flags sent(8) received(8) single|sequence(4)
//
// With a tag, type is larger by 8 and the tag ends the data:
//
//	loss        0a next 08 flags single|sequence(4) tag(4)
//	delay,loss  0b next 18 flags sent(8) received(8) single|sequence(4) tag(4)
//	sparse      0f next 18 flags sent(8) received(8) single|sequence(4) tag(4)
//
// wire.h lists each [Encoding] with its layout.
//
// An outer header has no options and copies the inner one's addresses, TOS,
// TTL, identification and DF. Its DSCP, TTL (unless it is larger) and ECN field
// (RFC 6040, but nothing is dropped) go back to the inner header. The UDP checksum is zero; the UDP source port is
// 0xC000 plus 14 bits of a hash of the inner five-tuple, so that a flow keeps
// one path under ECMP. The hash function is not part of the format. Fragments
// are not marked, nor are packets with IPv4 header options unless the encoding
// carries them inside.
//
// # UDP: an option behind the data
//
// The udp-option encoding uses the surplus area of RFC 9868: the IP packet grows, the
// length in the UDP header does not, and a host that does not know the area never sees it.
// The area starts with a zero if the UDP length is odd, and has one experimental option:
//
//	checksum(2) 7f 0c 504c single|sequence(4) time(4)
//	checksum(2) 7f 10 504c single|sequence(4) time(4) tag(4)
//
// The checksum covers the area including its length, so that the sum of the whole IP
// payload does not change; it is never zero. The time is the time of sending, UTC in units of
// 16 ns since 1970, modulo 2^32 (68.7 s): a reader takes the time nearest to its own clock,
// so delay and clock offset together must stay within 34 s. A time of zero says that the
// packet was not stamped, a number of zero (without the single bit) that it is not numbered.
// A sparse mark has 504d in place of 504c. An option of another length is not a mark: later
// versions may make it longer.
//
// # TCP: an option of the segment
//
// The tcp-option encoding is the last option of a TCP header, of the experimental kind 253
// with an identifier (RFC 6994):
//
//	fd 0c 504c single|sequence(4) time(4)
//	fd 10 504c single|sequence(4) time(4) tag(4)
//
// Number and time are as in the udp-option encoding, and so is the meaning of other lengths.
// The kernel of the sending host reserves the room while it builds the segment, so that the
// segment size and the checksum follow by themselves. Room that was not used for a mark has
// the other experimental kind, 254, the same length and identifier, and zeros; it says
// nothing. Segmentation repeats the option in every segment of a buffer, and merging (GRO)
// keeps it. It stays in the packet: hosts that do not know it skip it.
//
// # The tag
//
// A tag of 32 bits shows that a mark was written by a host that has the key of the pair of
// source and destination. It is the lower half of a SipHash-2-4 with the key of the flow over
// 13 bytes in little-endian order:
//
//	time(8) single|sequence(4) kind(1)
//
// kind is the sum of the module bits, 4 for a sparse mark, and 40 (hexadecimal) if the time
// of the mark is in units of 16 ns. time is whole, although the mark may have only its lower
// bits: units of 16 ns since 1970; or the NTP timestamp at which the packet was sent; or, for
// a mark without either, the nanoseconds since 1970 shifted right by 35, an epoch of 34.4 s.
// The received timestamp is not covered, since a waypoint fills it on the way.
//
// The key of a flow has two words of 64 bits, each in little-endian order. Each is a
// SipHash-2-4 with the key of the pair over 39 bytes in network byte order, which differ in
// the last, the index of the word (0 or 1):
//
//	source(16) destination(16) source-port(2) destination-port(2) protocol(1) version(1) index(1)
//
// An IPv4 address has zeros behind it; a protocol without ports has ports of zero; version is
// 4 or 6. Protocol and ports are taken from the packet without the mark. So a tag is wrong in
// any other flow, and in the reverse direction.
//
// Since a tag covers the whole time, a mark is valid only while the clock of the receiver is
// within 34 s of the sender's clock: a mark that is replayed later is recognized, even though
// the time in an option of a transport wraps around. For a mark without a time a receiver
// tries its own epoch and the nearer one of its neighbours: it accepts the mark up to a
// difference of 17 s in any case, and of 52 s at most. Within that time a copy of a mark is
// recognized by its sequence number.
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
// either a complete burst of two, or a single packet F that was duplicated
// while F+1 was lost. So a packet that left as one packet has the single bit:
// its number belongs to it alone, a second arrival is a duplicate, and a number
// that never arrives is lost. Without the bit, a million single
// packets with independent loss and duplication of 1 % each hide about a
// hundred losses and as many duplicates; with it both counts are exact up to
// the last arrival. For bursts the ambiguity stays: losses and duplicates
// between one first number and the next cancel each other.
//
// # Flow stride
//
// A flow's first number is a random multiple of 0x10000 (WIRE_FLOW_STRIDE),
// modulo 2^31. A source that evicted a flow and restarts it thus almost always
// jumps far, to a multiple of the stride, and the destination restarts its
// count instead of reporting tens of thousands of losses.
//
// # What a reader accepts
//
// Parsing is strict: exactly the layouts above count as a mark, padding
// included. A reader distinguishes other protocols' bytes from a malformed mark
// and from a truncated one. A Hop-by-Hop header after a mark is malformed too:
// removing the mark would put it into effect.
//
// pillion.lua is a dissector for Wireshark and tshark. It shows tags without checking them.
package wire
