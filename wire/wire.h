/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Byte layouts inside packets: the only C definition. The reference codec in
 * test/codec reads and writes the same layouts; golden vectors check both.
 *
 * IPv6 carries a mark in a Destination Options header (RFC 8200) right after
 * the fixed header, or after a Hop-by-Hop header where there is one. IPv4
 * carries it in a shim between the IPv4 header and what followed it. Either
 * carries it in an option of the transport, where the encoding says so.
 * Every integer is in network byte order.
 */
#ifndef PILLION_WIRE_H
#define PILLION_WIRE_H

/* Modules: what a mark carries. */
#define WIRE_DELAY 1
#define WIRE_LOSS 2

/*
 * In addition to both modules: only some packets of the flow carry a mark, and the sequence
 * numbers count the unmarked ones, too. Counted packets have TCP or UDP right behind an IP
 * header without options or extension headers, and are not fragments.
 */
#define WIRE_SPARSE 4

/*
 * In addition to WIRE_LOSS: the mark ends with a message authentication code (tag) of 32 bits, which
 * takes the key that the two hosts share (wire_tag in probe/bpf/tag.h is the definition in C).
 */
#define WIRE_TAGGED 8
#define WIRE_TAG_LENGTH 4

/* In the type of a shim: options of modules (standard.h) follow the mark and its tag, if it has one. */
#define WIRE_MODULES 0x10

/*
 * In addition to WIRE_LOSS: sequence numbers belong to an aggregate of flows, which is identified by
 * fewer fields than the five-tuple. The mark names the fields (source address 1, destination
 * address 2, protocol 4, source port 8, destination port 16) in its flags or its ExID, so that a
 * destination that identifies flows by other fields does not count gaps as losses.
 */
#define WIRE_AGGREGATE 0x80 /* in flags, beside the fields */
#define WIRE_AGGREGATE_FIELDS 0x1f

/*
 * The class of a packet, on which the choice of its encoding depends: a bit set
 * with one IP version, one transport, and the other properties of the packet.
 */
#define WIRE_IPV4 0x01
#define WIRE_IPV6 0x02
#define WIRE_TCP 0x04
#define WIRE_UDP 0x08
#define WIRE_OTHER 0x10	    /* any other transport */
#define WIRE_FORWARDED 0x20 /* not sent by this host */
#define WIRE_GSO 0x40	    /* a segmentation buffer, which becomes several packets */
#define WIRE_EXTENDED 0x80  /* IPv4 options, IPv6 extension headers, or inside a tunnel's buffer */

/*
 * The class as an index of tables: IP version, transport and each other property have a
 * bit field, so that few indices stand for impossible classes (Class.Index in Go).
 */
#define WIRE_INDEX_IPV4 0
#define WIRE_INDEX_IPV6 0x01
#define WIRE_INDEX_TCP 0
#define WIRE_INDEX_UDP 0x02
#define WIRE_INDEX_OTHER 0x04
#define WIRE_INDEX_FORWARDED 0x08
#define WIRE_INDEX_GSO 0x10
#define WIRE_INDEX_EXTENDED 0x20
#define WIRE_CLASSES 64 /* indices are below this */

#define WIRE_ANY (WIRE_TCP | WIRE_UDP | WIRE_OTHER)

/* What an encoding can carry, and what can be measured by it. */
#define WIRE_CARRIES_NUMBER 0x01 /* a number of each packet: loss, reordering, duplication */
#define WIRE_CARRIES_TIME 0x02	 /* the time of sending: one-way delay */
#define WIRE_CARRIES_ECHO 0x04	 /* number and times of the other direction: round-trip time */
#define WIRE_CARRIES_BLOCK 0x08	 /* the block of a packet: loss and delay per block */
#define WIRE_CARRIES_HOPS 0x10	 /* times that routers write: delay of each hop */
#define WIRE_CARRIES_SPARSE 0x20 /* the flag WIRE_SPARSE */
#define WIRE_CARRIES_MODULES 0x40 /* options of modules (standard.h) */

#define WIRE_CARRIES_OWN (WIRE_CARRIES_NUMBER | WIRE_CARRIES_TIME | WIRE_CARRIES_SPARSE)

/*
 * Encodings: how a mark travels. This is the only list of their names and
 * numbers: go test ./wire -update generates the Go constants, the page's
 * choices and the table in the documentation from it.
 *
 *   native  IPv6 options L4          options as struct wire_native_*
 *   shim    IP(253) shim L4          253: for experiments (RFC 3692, RFC 4727)
 *   ipip    IP(4) IP(253) shim L4    outer header as in RFC 2003
 *   udp     IP(17) UDP shim(4) IP L4 the inner packet is complete and unchanged
 *   udp-option  IP UDP data surplus  the surplus area of RFC 9868, between the end that the
 *                                    UDP length states and the end of the IP packet: a zero
 *                                    where the UDP length is odd, struct wire_udp_option
 *   tcp-option  IP TCP(options) data   the last of the options, struct wire_experiment
 *   ioam-e2e  IPv6 options L4        an option of IOAM (RFC 9197), struct wire_ioam_e2e
 *   ioam-trace  IPv6 hop-by-hop L4   space for routers and the same option, struct wire_ioam_trace
 *   pdm     IPv6 options L4          an option of RFC 8250, struct wire_pdm
 *   altmark  IPv6 options L4         an option of Alternate Marking (RFC 9343), struct wire_altmark
 *
 * An encoding applies to a packet if it lists all properties of the packet's class.
 *
 * X(C name, Go name, number, packets, what it carries, bytes added by delay, loss, both,
 *   tagged loss, tagged both, text)
 */
#define WIRE_ENCODINGS(X)                                                       \
	X(NATIVE, Native, 0,                                                    \
	  WIRE_IPV6 | WIRE_ANY | WIRE_FORWARDED | WIRE_GSO | WIRE_EXTENDED,     \
	  WIRE_CARRIES_OWN | WIRE_CARRIES_MODULES, 24, 8, 32, 16, 32,                                  \
	  "An IPv6 Destination Options header. IPv4 packets stay unmarked.")    \
	X(SHIM, Shim, 1, WIRE_IPV4 | WIRE_ANY | WIRE_FORWARDED,                 \
	  WIRE_CARRIES_OWN | WIRE_CARRIES_MODULES, 20, 8, 24, 12, 28,                                  \
	  "A shim behind the IPv4 header; the packet becomes IP protocol 253. " \
	  "Adds the fewest bytes to protocols other than UDP and TCP; firewalls and NAT often drop it.")            \
	X(IPIP, IPIP, 2, WIRE_IPV4 | WIRE_ANY | WIRE_FORWARDED,                 \
	  WIRE_CARRIES_OWN | WIRE_CARRIES_MODULES, 40, 28, 44, 32, 48,                                 \
	  "As shim, behind a second IPv4 header (protocol 4, RFC 2003). "       \
	  "For networks that let such tunnels through.")                        \
	X(UDP, UDP, 3,                                                          \
	  WIRE_IPV4 | WIRE_ANY | WIRE_FORWARDED | WIRE_GSO | WIRE_EXTENDED,     \
	  WIRE_CARRIES_OWN | WIRE_CARRIES_MODULES, 48, 36, 52, 40, 56,                                 \
	  "The whole packet travels inside UDP to port 50253. Passes firewalls that " \
	  "allow UDP; may take another equal-cost path than unmarked packets.") \
	X(UDP_OPTION, UDPOption, 4, WIRE_IPV4 | WIRE_IPV6 | WIRE_UDP,           \
	  WIRE_CARRIES_OWN, 14, 14, 14, 18, 18,                                 \
	  "A UDP option (RFC 9868) behind the data of the datagram, which hosts without " \
	  "Pillion ignore. Costs least; ports and path stay the same. Only for UDP that this " \
	  "host sends; one byte more if the UDP length is odd.")                \
	X(TCP_OPTION, TCPOption, 5,                                             \
	  WIRE_IPV4 | WIRE_IPV6 | WIRE_TCP | WIRE_GSO | WIRE_EXTENDED,          \
	  WIRE_CARRIES_OWN, 12, 12, 12, 16, 16,                                 \
	  "An experimental TCP option, which hosts without Pillion ignore. Only for " \
	  "connections of this host, which then send smaller segments by themselves.") \
	X(IOAM_E2E, IOAME2E, 6,                                                 \
	  WIRE_IPV6 | WIRE_ANY | WIRE_FORWARDED | WIRE_EXTENDED,                \
	  WIRE_CARRIES_NUMBER | WIRE_CARRIES_TIME, 24, 16, 24, 24, 32,          \
	  "IOAM edge to edge (RFC 9197, RFC 9486) in an IPv6 Destination Options header. " \
	  "Pillion also reads such options that others write. Segmentation buffers and IPv4 " \
	  "packets stay unmarked, unless another encoding follows in the list.") \
	X(IOAM_TRACE, IOAMTrace, 7, WIRE_IPV6 | WIRE_ANY | WIRE_FORWARDED,      \
	  WIRE_CARRIES_NUMBER | WIRE_CARRIES_TIME | WIRE_CARRIES_HOPS, 128, 128, 136, 136, 144, \
	  "The Pre-allocated Trace Option of IOAM in an IPv6 Hop-by-Hop header, which up to 8 routers fill: " \
	  "stock Linux from 5.15 on, by sysctl. Times of routers are whole microseconds. The mark of " \
	  "ioam-e2e follows the trace. Some routers drop packets with a Hop-by-Hop header. " \
	  "Segmentation buffers and IPv4 packets stay unmarked, unless another encoding follows in the list.") \
	X(PDM, PDM, 8, WIRE_IPV6 | WIRE_ANY | WIRE_FORWARDED | WIRE_EXTENDED,   \
	  WIRE_CARRIES_NUMBER | WIRE_CARRIES_ECHO, 16, 16, 16, 24, 24,          \
	  "Performance and Diagnostic Metrics (RFC 8250) in an IPv6 Destination Options header, which stays in " \
	  "packets that are delivered locally. Loss is exact, except before the first packet that " \
	  "arrives and where 32,768 or more packets are lost in a row. Segmentation buffers and IPv4 packets stay unmarked, " \
	  "unless another encoding follows in the list.") \
	X(ALTMARK, AltMark, 9,                                                  \
	  WIRE_IPV6 | WIRE_ANY | WIRE_FORWARDED | WIRE_GSO | WIRE_EXTENDED,     \
	  WIRE_CARRIES_BLOCK, 8, 8, 8, 16, 16,                                  \
	  "Alternate Marking (RFC 9341, RFC 9343) in an IPv6 Destination Options header. Packets have the " \
	  "colour of their block instead of numbers: per block, losses less duplicates, and the delay of one packet. " \
	  "No reordering and no delay variation. Needs a server, which joins the counts of both ends, and a " \
	  "clock offset and delay that together are less than a quarter of a block. IPv4 packets stay unmarked.")

/*
 * A source has a list of encodings; a packet gets the first that applies to
 * it. This is the list unless a user chooses another.
 */
#define WIRE_ENCODING_DEFAULT UDP_OPTION, TCP_OPTION, NATIVE, UDP

#define WIRE_ENCODING_NUMBER(name, go, number, ...) WIRE_ENCODING_##name = number,
enum wire_encoding { WIRE_ENCODINGS(WIRE_ENCODING_NUMBER) };
#define WIRE_ENCODING_NONE 0xff
#define WIRE_ENCODINGS_MAX 16 /* numbers are below this */

/* IPv6 option types, RFC 4727 experimental, "skip if unknown". */
#define WIRE_OPTION_DELAY 0x3e /* may change en route: a waypoint may fill received */
#define WIRE_OPTION_LOSS 0x1e
#define WIRE_OPTION_PAD1 0x00
#define WIRE_OPTION_PADN 0x01

#define WIRE_OPTION_DELAY_LENGTH 16
#define WIRE_OPTION_LOSS_LENGTH 4
#define WIRE_OPTION_SPARSE_LENGTH 5
#define WIRE_OPTION_TAGGED_LENGTH (WIRE_OPTION_LOSS_LENGTH + WIRE_TAG_LENGTH)
#define WIRE_OPTION_TAGGED_SPARSE_LENGTH (WIRE_OPTION_SPARSE_LENGTH + WIRE_TAG_LENGTH)

/* Whole header sizes in bytes. */
#define WIRE_NATIVE_DELAY 24
#define WIRE_NATIVE_LOSS 8
#define WIRE_NATIVE_BOTH 32
#define WIRE_NATIVE_TAGGED_LOSS 16 /* with both modules a tag takes the place of padding */
#define WIRE_NATIVE_AGGREGATE_LOSS 16 /* with both modules its flags take the place of padding */
#define WIRE_NATIVE_MAX WIRE_NATIVE_BOTH
#define WIRE_MARK_MAX 152 /* of any encoding that is an IPv6 extension header */

#define WIRE_SHIM_HEAD 4
#define WIRE_SHIM_DELAY (WIRE_SHIM_HEAD + 16)
#define WIRE_SHIM_LOSS (WIRE_SHIM_HEAD + 4)
#define WIRE_SHIM_BOTH (WIRE_SHIM_HEAD + 20)
#define WIRE_SHIM_MAX (WIRE_SHIM_BOTH + WIRE_TAG_LENGTH)

#define WIRE_PROTOCOL 253   /* RFC 3692 / RFC 4727: an IPv4 protocol for experiments */
#define WIRE_UDP_PORT 50253 /* default destination port of the udp encoding */

/*
 * A sequence number is 31 bits. The top bit says that the packet left the
 * source as one packet, so that its number belongs to it alone. Without it
 * the number is the first of a burst that segmentation will repeat in each
 * of the burst's packets.
 */
#define WIRE_SINGLE 0x80000000u
#define WIRE_SEQUENCE_MASK 0x7fffffffu

/*
 * A flow's first number is a random multiple of WIRE_FLOW_STRIDE, so that a
 * destination can distinguish a restarted flow from a flow that lost packets.
 */
#define WIRE_FLOW_STRIDE 0x10000u

/* Seconds from the NTP epoch (1900) to the UNIX epoch (1970). */
#define WIRE_NTP_UNIX 2208988800u

/* NTP 64-bit timestamp (RFC 5905): seconds since 1900, fraction 2^-32 s, UTC. */
struct wire_timestamp {
	__be32 seconds;
	__be32 fraction;
};

/* The times of the delay module: received is zero until a waypoint on the path fills it in. */
struct wire_delay {
	struct wire_timestamp sent;
	struct wire_timestamp received;
};

struct wire_option_delay {
	__u8 type;
	__u8 length;
	struct wire_delay data;
} __attribute__((packed));

struct wire_option_loss {
	__u8 type;
	__u8 length;
	__be32 sequence;
} __attribute__((packed));

/* The loss option of a flow of which only some packets carry a mark, or of an aggregate of flows. */
struct wire_option_sparse {
	__u8 type;
	__u8 length;
	__be32 sequence;
	__u8 flags; /* WIRE_SPARSE, or WIRE_AGGREGATE and fields */
} __attribute__((packed));

/* The loss option and the sparse option with a tag. */
struct wire_option_tagged {
	__u8 type;
	__u8 length;
	__be32 sequence;
	__be32 tag;
} __attribute__((packed));

struct wire_option_tagged_sparse {
	__u8 type;
	__u8 length;
	__be32 sequence;
	__u8 flags;
	__be32 tag;
} __attribute__((packed));

/* The head of an IPv6 Destination Options header. */
struct wire_options {
	__u8 next_header;
	__u8 length; /* in units of 8 bytes, not counting the first 8 bytes */
} __attribute__((packed));

struct wire_native_delay {
	struct wire_options head;
	struct wire_option_delay delay;
	__u8 pad[4]; /* 01 02 00 00 */
} __attribute__((packed));

struct wire_native_loss {
	struct wire_options head;
	struct wire_option_loss loss;
} __attribute__((packed));

struct wire_native_both {
	struct wire_options head;
	struct wire_option_delay delay;
	struct wire_option_loss loss;
	__u8 pad[6]; /* 01 04 00 00 00 00 */
} __attribute__((packed));

struct wire_native_sparse {
	struct wire_options head;
	struct wire_option_delay delay;
	struct wire_option_sparse loss;
	__u8 pad[5]; /* 01 03 00 00 00 */
} __attribute__((packed));

struct wire_native_tagged_loss {
	struct wire_options head;
	struct wire_option_tagged loss;
	__u8 pad[4]; /* 01 02 00 00 */
} __attribute__((packed));

struct wire_native_aggregate_loss {
	struct wire_options head;
	struct wire_option_sparse loss;
	__u8 pad[7]; /* 01 05 00 00 00 00 00 */
} __attribute__((packed));

struct wire_native_tagged_aggregate_loss {
	struct wire_options head;
	struct wire_option_tagged_sparse loss;
	__u8 pad[3]; /* 01 01 00 */
} __attribute__((packed));

struct wire_native_tagged_both {
	struct wire_options head;
	struct wire_option_delay delay;
	struct wire_option_tagged loss;
	__u8 pad[2]; /* 01 00 */
} __attribute__((packed));

struct wire_native_tagged_sparse {
	struct wire_options head;
	struct wire_option_delay delay;
	struct wire_option_tagged_sparse loss;
	__u8 pad; /* 00 */
} __attribute__((packed));

/*
 * The head of a shim (IPv4): type is the sum of the modules, WIRE_SPARSE, WIRE_TAGGED and WIRE_MODULES;
 * length is the length of the data after the head, bytes.
 */
struct wire_shim {
	__u8 type;
	__u8 next_protocol;
	__u8 length;
	__u8 flags; /* zero, or WIRE_AGGREGATE and fields; a reader ignores unknown bits */
} __attribute__((packed));

struct wire_shim_delay {
	struct wire_shim head;
	struct wire_delay delay;
} __attribute__((packed));

struct wire_shim_loss {
	struct wire_shim head;
	__be32 sequence;
} __attribute__((packed));

struct wire_shim_both {
	struct wire_shim head;
	struct wire_delay delay;
	__be32 sequence;
} __attribute__((packed));

struct wire_shim_tagged_loss {
	struct wire_shim_loss shim;
	__be32 tag;
} __attribute__((packed));

struct wire_shim_tagged_both {
	struct wire_shim_both shim;
	__be32 tag;
} __attribute__((packed));

/*
 * A mark as an experimental option of a transport (kind, length, ExID as in
 * RFC 6994 and RFC 9868). A number of zero means that the packet is not numbered; a burst never
 * begins with zero. A time of zero means that the mark has no time stamp.
 *
 * A tag follows the time and makes the option longer; later versions can add fields in the same
 * way. A reader accepts only known lengths as a mark and does not touch an option of another
 * length.
 */
#define WIRE_EXID 0x504c
#define WIRE_EXID_SPARSE 0x504d /* only some packets of the flow carry a mark: see WIRE_SPARSE */
#define WIRE_EXID_AGGREGATE 0x5060 /* to 0x507f: the fields are added; see WIRE_AGGREGATE */
#define WIRE_EXPERIMENT_LENGTH 12 /* kind and length included */
#define WIRE_EXPERIMENT_TAGGED_LENGTH (WIRE_EXPERIMENT_LENGTH + WIRE_TAG_LENGTH)

struct wire_experiment {
	__u8 kind;
	__u8 length;
	__be16 exid;
	__be32 number; /* WIRE_SINGLE and a sequence number */
	__be32 time;   /* UTC when sent, in units of 16 ns since 1970, modulo 2^32 */
} __attribute__((packed));

struct wire_experiment_tagged {
	struct wire_experiment mark;
	__be32 tag;
} __attribute__((packed));

#define WIRE_TIME_SHIFT 4 /* a time in ns, shifted right by this, is in units of wire_experiment.time */

/*
 * A UDP option. The checksum covers the surplus area and its length, so that the
 * mark does not change the sum of the IP payload and the pseudo-header with the payload's
 * length: the UDP checksum is also valid for devices that ignore the UDP length. It is
 * never zero.
 */
#define WIRE_UDP_OPTION_KIND 127 /* experimental (RFC 9868) */
#define WIRE_UDP_OPTION 14

struct wire_udp_option {
	__be16 check;
	struct wire_experiment mark;
} __attribute__((packed));

#define WIRE_UDP_OPTION_TAGGED (WIRE_UDP_OPTION + WIRE_TAG_LENGTH)

struct wire_udp_option_tagged {
	__be16 check;
	struct wire_experiment_tagged mark;
} __attribute__((packed));

/*
 * A TCP option, of one of the two experimental kinds (RFC 4727). With WIRE_TCP_ROOM_KIND,
 * number and time are zero: the source's kernel reserved space for a mark that the source
 * then did not write.
 */
#define WIRE_TCP_OPTION_KIND 253
#define WIRE_TCP_ROOM_KIND 254
#define WIRE_TCP_OPTION WIRE_EXPERIMENT_LENGTH
#define WIRE_TCP_OPTION_TAGGED WIRE_EXPERIMENT_TAGGED_LENGTH

/*
 * The tag: the lower 32 bits of SipHash-2-4 (Aumasson, Bernstein 2012) with the key of the
 * flow over time (8 bytes), number (4) and kind (1), each in little-endian order. The number is as
 * in the mark. The kind is the sum of the modules and WIRE_SPARSE; for a time in units of
 * 16 ns, WIRE_TAG_TICKS is added. The time is not truncated to the bits that the mark
 * has: nanoseconds since 1970 shifted right by WIRE_TIME_SHIFT, or the NTP timestamp. In a mark without a time it
 * is the nanoseconds since 1970 shifted right by WIRE_TAG_EPOCH. So a replayed mark is
 * only valid for a short time.
 *
 * The key of the flow has two words: SipHash-2-4 with the key of the pair over source address,
 * destination address (16 bytes each; IPv4 in the first 4), source port, destination port,
 * protocol, IP version (6 bytes, as in the packet) and the index of the word, 0 or 1.
 */
#define WIRE_TAG_TICKS 0x40
#define WIRE_TAG_EPOCH 35
#define WIRE_KEY_LENGTH 16

#include "standard.h"

/*
 * A path probe: the data of a UDP datagram by which a source finds out whether
 * packets with a mark in one of the encodings arrive (path validation). A
 * destination program that reads the mark of a probe writes the result to read, and
 * its complement to balance, so that checksums stay valid; the destination's host
 * sends the datagram back as an answer. Probes are padded with zeros.
 */
#define WIRE_PROBE_PORT 25253	     /* destination port of probes; no ephemeral port on Linux */
#define WIRE_PROBE_MAGIC 0x504c5650u /* "PLVP" */
#define WIRE_PROBE_LENGTH 24

enum wire_probe_read {
	WIRE_PROBE_UNREAD,
	WIRE_PROBE_READ,      /* the mark is intact */
	WIRE_PROBE_MALFORMED, /* a mark with an invalid checksum or layout */
};

struct wire_probe {
	__be32 magic;
	__be16 read;
	__be16 balance; /* the complement of read */
	__u8 kind;	/* question or answer */
	__u8 encoding;	/* of the mark, WIRE_ENCODING_NONE for a probe without one */
	__be16 round;	/* of path validation, in which the probe was sent */
	__be32 zero;
	__be64 token; /* random; an answer repeats the token of its question */
} __attribute__((packed));

#define WIRE_PROBE_QUESTION 1
#define WIRE_PROBE_ANSWER 2

_Static_assert(sizeof(struct wire_experiment) == WIRE_EXPERIMENT_LENGTH, "experimental option");
_Static_assert(sizeof(struct wire_udp_option) == WIRE_UDP_OPTION, "UDP option");
_Static_assert(sizeof(struct wire_probe) == WIRE_PROBE_LENGTH, "path probe");
_Static_assert(sizeof(struct wire_native_delay) == WIRE_NATIVE_DELAY, "delay option");
_Static_assert(sizeof(struct wire_native_loss) == WIRE_NATIVE_LOSS, "loss option");
_Static_assert(sizeof(struct wire_native_both) == WIRE_NATIVE_BOTH, "delay and loss options");
_Static_assert(sizeof(struct wire_native_sparse) == WIRE_NATIVE_BOTH, "options of a sparse mark");
_Static_assert(sizeof(struct wire_native_aggregate_loss) == WIRE_NATIVE_AGGREGATE_LOSS, "loss option of an aggregate");
_Static_assert(sizeof(struct wire_native_tagged_aggregate_loss) == WIRE_NATIVE_AGGREGATE_LOSS, "tagged loss option of an aggregate");
_Static_assert(sizeof(struct wire_shim_delay) == WIRE_SHIM_DELAY, "delay shim");
_Static_assert(sizeof(struct wire_shim_loss) == WIRE_SHIM_LOSS, "loss shim");
_Static_assert(sizeof(struct wire_shim_both) == WIRE_SHIM_BOTH, "delay and loss shim");
_Static_assert(sizeof(struct wire_native_tagged_loss) == WIRE_NATIVE_TAGGED_LOSS, "tagged loss option");
_Static_assert(sizeof(struct wire_native_tagged_both) == WIRE_NATIVE_BOTH, "tagged delay and loss options");
_Static_assert(sizeof(struct wire_native_tagged_sparse) == WIRE_NATIVE_BOTH, "options of a tagged sparse mark");
_Static_assert(sizeof(struct wire_shim_tagged_both) == WIRE_SHIM_MAX, "tagged delay and loss shim");
_Static_assert(sizeof(struct wire_udp_option_tagged) == WIRE_UDP_OPTION_TAGGED, "tagged UDP option");

#endif
