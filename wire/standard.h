/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Marks in IPv6 options that standards define, and the option by which Pillion adds its own data to
 * them and to the native encoding. Part of wire.h, which includes it.
 *
 *   PDM (RFC 8250)                     0x0f  Destination Options
 *   Alternate Marking (RFC 9343)       0x12  Destination Options
 *   IOAM (RFC 9197, RFC 9486)          0x11  Destination Options; 0x31 Hop-by-Hop Options
 *     edge to edge (type 3), pre-allocated trace (type 0), direct export (type 4, RFC 9326)
 *
 * An IOAM option begins at an offset of 4n in its header (RFC 9486): a PadN of zero bytes
 * precedes the first. Linux drops packets whose trace option is misaligned, even if IOAM is off.
 */
#ifndef PILLION_WIRE_STANDARD_H
#define PILLION_WIRE_STANDARD_H

/*
 * The module option: type 0x3e, length 1 + n, an id, n bytes of data. Of two options of type
 * 0x3e, the delay option is the one with a length of 16: no module has 15 bytes.
 */
#define WIRE_OPTION_MODULE 0x3e
#define WIRE_MODULE_HEAD 3 /* type, length, id */

/* Maximum lengths, bytes: of the data of a module from 0x40 on, and of all module options of a mark. */
#define WIRE_MODULE_DATA_MAX 8
#define WIRE_MODULE_BYTES_MAX 32

/* X(name, id, bytes of data): options of Pillion itself. Ids from 0x40 to 0x7f are for modules. */
#define WIRE_MODULE_OPTIONS(X)                                                  \
	X(TAG, 1, 4)	 /* the tag of a mark in a standard option */           \
	X(INGRESS, 2, 4) /* the number of the agent that wrote the mark */

#define WIRE_MODULE_ID(name, id, length) WIRE_MODULE_##name = id,
#define WIRE_MODULE_BYTES(name, id, length) WIRE_MODULE_##name##_LENGTH = length,
enum wire_module_option {
	WIRE_MODULE_OPTIONS(WIRE_MODULE_ID)
	WIRE_MODULE_FIRST = 0x40,
	WIRE_MODULE_LAST = 0x7f,
};
enum wire_module_length { WIRE_MODULE_OPTIONS(WIRE_MODULE_BYTES) };

struct wire_option_tag {
	__u8 type;   /* WIRE_OPTION_MODULE */
	__u8 length; /* 5 */
	__u8 id;     /* WIRE_MODULE_TAG */
	__be32 tag;
} __attribute__((packed));

struct wire_option_ingress {
	__u8 type;   /* WIRE_OPTION_MODULE */
	__u8 length; /* 5 */
	__u8 id;     /* WIRE_MODULE_INGRESS */
	__be32 number;
} __attribute__((packed));

/* Bytes that the ingress option adds to a mark that is a whole IPv6 extension header, with padding. */
#define WIRE_INGRESS_PADDED 8

/*
 * The kind over which the tag (see WIRE_TAG_LENGTH) of marks in these encodings is computed. The number
 * is the packet's; with Alternate Marking, it is the data of the option. The time is the NTP timestamp
 * if the mark has one, else the epoch. The tag does not cover trace entries, which routers fill in.
 */
#define WIRE_TAG_PDM 0x86
#define WIRE_TAG_IOAM_E2E 0x87
#define WIRE_TAG_ALTMARK 0x88
#define WIRE_TAG_IOAM_TRACE 0x89

/*
 * Performance and Diagnostic Metrics. Deltas are in units of 2^scale attoseconds (10^-18 s).
 * Before a packet was received in the other direction, last, deltas and scales are zero.
 */
#define WIRE_OPTION_PDM 0x0f
#define WIRE_OPTION_PDM_LENGTH 10

struct wire_option_pdm {
	__u8 type;
	__u8 length;
	__u8 scale_last_received; /* ScaleDTLR */
	__u8 scale_last_sent;	  /* ScaleDTLS */
	__be16 number;		  /* PSNTP: of this packet in its flow, from a random start */
	__be16 last;		  /* PSNLR: number of the packet last received in the other direction */
	__be16 delta_last_received; /* DeltaTLR: from receiving packet last to sending this one */
	__be16 delta_last_sent;	    /* DeltaTLS: from sending the previous packet to receiving packet last */
} __attribute__((packed));

struct wire_pdm {
	struct wire_options head;
	struct wire_option_pdm pdm;
	__u8 pad[2]; /* 01 00 */
} __attribute__((packed));

struct wire_pdm_tagged {
	struct wire_options head;
	struct wire_option_pdm pdm;
	struct wire_option_tag tag;
	__u8 pad[3]; /* 01 01 00 */
} __attribute__((packed));

/* Alternate Marking: FlowMonID (20 bits), L and D (1 bit each), 10 bits reserved. */
#define WIRE_OPTION_ALTMARK 0x12
#define WIRE_OPTION_ALTMARK_LENGTH 4
#define WIRE_ALTMARK_FLOW_SHIFT 12
#define WIRE_ALTMARK_LOSS 0x800u  /* L: alternates from block to block */
#define WIRE_ALTMARK_DELAY 0x400u /* D: a packet whose delay is measured */

struct wire_option_altmark {
	__u8 type;
	__u8 length;
	__be32 data;
} __attribute__((packed));

struct wire_altmark {
	struct wire_options head;
	struct wire_option_altmark altmark;
} __attribute__((packed));

struct wire_altmark_tagged {
	struct wire_options head;
	struct wire_option_altmark altmark;
	struct wire_option_tag tag;
	__u8 pad; /* 00 */
} __attribute__((packed));

/* IOAM options begin with struct wire_option_ioam. */
#define WIRE_OPTION_IOAM 0x11
#define WIRE_OPTION_IOAM_HOPS 0x31 /* in a Hop-by-Hop header: may change en route */

#define WIRE_IOAM_TRACE 0 /* pre-allocated */
#define WIRE_IOAM_E2E 3
#define WIRE_IOAM_DEX 4

#define WIRE_IOAM_NAMESPACE 0 /* the default namespace, in which Pillion writes times as NTP timestamps */

struct wire_option_ioam {
	__u8 type;
	__u8 length;
	__u8 reserved;
	__u8 kind;
	__be16 namespace;
} __attribute__((packed));

#define WIRE_IOAM_HEAD 6
#define WIRE_IOAM_OPTION_HEAD 4 /* the part of the head that the option's length counts */

/* Edge to edge: which fields follow, in this order. */
#define WIRE_E2E_SEQUENCE64 0x8000
#define WIRE_E2E_SEQUENCE32 0x4000
#define WIRE_E2E_SECONDS 0x2000
#define WIRE_E2E_FRACTION 0x1000
#define WIRE_E2E_TIME (WIRE_E2E_SECONDS | WIRE_E2E_FRACTION)

/* The number is WIRE_SINGLE and a sequence number: segmentation buffers get no such mark. */
struct wire_option_e2e_loss {
	struct wire_option_ioam ioam;
	__be16 fields;
	__be32 number;
} __attribute__((packed));

struct wire_option_e2e_delay {
	struct wire_option_ioam ioam;
	__be16 fields;
	struct wire_timestamp sent;
} __attribute__((packed));

struct wire_option_e2e {
	struct wire_option_ioam ioam;
	__be16 fields;
	__be32 number;
	struct wire_timestamp sent;
} __attribute__((packed));

#define WIRE_IOAM_E2E_LOSS 16
#define WIRE_IOAM_E2E_DELAY 24
#define WIRE_IOAM_E2E_BOTH 24
#define WIRE_IOAM_E2E_TAGGED_LOSS 24
#define WIRE_IOAM_E2E_TAGGED 32

struct wire_ioam_e2e_loss {
	struct wire_options head;
	__u8 align[2]; /* 01 00 */
	struct wire_option_e2e_loss e2e;
} __attribute__((packed));

struct wire_ioam_e2e_delay {
	struct wire_options head;
	__u8 align[2];
	struct wire_option_e2e_delay e2e;
	__u8 pad[4]; /* 01 02 00 00 */
} __attribute__((packed));

struct wire_ioam_e2e {
	struct wire_options head;
	__u8 align[2];
	struct wire_option_e2e e2e;
} __attribute__((packed));

struct wire_ioam_e2e_tagged_loss {
	struct wire_options head;
	__u8 align[2];
	struct wire_option_e2e_loss e2e;
	struct wire_option_tag tag;
	__u8 pad; /* 00 */
} __attribute__((packed));

struct wire_ioam_e2e_tagged {
	struct wire_options head;
	__u8 align[2];
	struct wire_option_e2e e2e;
	struct wire_option_tag tag;
	__u8 pad; /* 00 */
} __attribute__((packed));

/*
 * Trace: a router writes its entry at the end of the free space and reduces the free space, so that the
 * entries are in the order from the last router to the first. lengths: 4-byte words of an entry (5 bits),
 * flags (4), free words (7). fields: trace type (24 bits), reserved (8).
 */
#define WIRE_TRACE_NODES 8
#define WIRE_TRACE_ENTRY 12 /* bytes of an entry with the fields below */
#define WIRE_TRACE_FIELDS 0xb0000000u

#define WIRE_TRACE_HOP_LIMIT 0x80000000u /* bit 0: hop limit and node id */
#define WIRE_TRACE_SECONDS 0x20000000u	 /* bit 2 */
#define WIRE_TRACE_FRACTION 0x10000000u	 /* bit 3 */

#define WIRE_TRACE_ENTRY_SHIFT 11
#define WIRE_TRACE_OVERFLOW 0x0400u /* flag O: a router found no space */
#define WIRE_TRACE_LEFT_MASK 0x7f

struct wire_option_trace {
	struct wire_option_ioam ioam;
	__be16 lengths;
	__be32 fields;
} __attribute__((packed));

/* An entry as Linux writes it: seconds since 1970, and fraction in microseconds. */
struct wire_trace_entry {
	__be32 node; /* hop limit (8 bits), id (24) */
	__be32 seconds;
	__be32 fraction;
} __attribute__((packed));

#define WIRE_IOAM_TRACE_DELAY 128
#define WIRE_IOAM_TRACE_LOSS 128
#define WIRE_IOAM_TRACE_BOTH 136
#define WIRE_IOAM_TRACE_TAGGED_LOSS 136
#define WIRE_IOAM_TRACE_TAGGED 144

/* The trace option and its header. The edge-to-edge option follows, and then the tag, if there is one. */
struct wire_trace {
	struct wire_options head;
	__u8 align[2]; /* 01 00 */
	struct wire_option_trace trace;
	struct wire_trace_entry entries[WIRE_TRACE_NODES];
} __attribute__((packed));

struct wire_ioam_trace_delay {
	struct wire_trace path;
	struct wire_option_e2e_delay e2e;
} __attribute__((packed));

struct wire_ioam_trace_loss {
	struct wire_trace path;
	struct wire_option_e2e_loss e2e;
	__u8 pad[4]; /* 01 02 00 00 */
} __attribute__((packed));

struct wire_ioam_trace {
	struct wire_trace path;
	struct wire_option_e2e e2e;
	__u8 pad[4]; /* 01 02 00 00 */
} __attribute__((packed));

struct wire_ioam_trace_tagged_loss {
	struct wire_trace path;
	struct wire_option_e2e_loss e2e;
	struct wire_option_tag tag;
	__u8 pad[5]; /* 01 03 00 00 00 */
} __attribute__((packed));

struct wire_ioam_trace_tagged {
	struct wire_trace path;
	struct wire_option_e2e e2e;
	struct wire_option_tag tag;
	__u8 pad[5]; /* 01 03 00 00 00 */
} __attribute__((packed));

/* Direct export: routers send their data to a collector. extensions says whether flow id and number follow. */
#define WIRE_DEX_FLOW 0x80
#define WIRE_DEX_NUMBER 0x40

struct wire_option_dex {
	struct wire_option_ioam ioam;
	__u8 flags;
	__u8 extensions; /* WIRE_DEX_FLOW, WIRE_DEX_NUMBER */
	__be32 fields;	 /* as in a trace */
	__be32 flow;
	__be32 number;
} __attribute__((packed));

_Static_assert(sizeof(struct wire_option_tag) == WIRE_MODULE_HEAD + WIRE_MODULE_TAG_LENGTH, "tag option");
_Static_assert(sizeof(struct wire_option_ingress) == WIRE_MODULE_HEAD + WIRE_MODULE_INGRESS_LENGTH, "ingress option");
_Static_assert(sizeof(struct wire_option_pdm) == 2 + WIRE_OPTION_PDM_LENGTH, "PDM option");
_Static_assert(sizeof(struct wire_pdm) == 16 && sizeof(struct wire_pdm_tagged) == 24, "PDM header");
_Static_assert(sizeof(struct wire_altmark) == 8 && sizeof(struct wire_altmark_tagged) == 16, "Alternate Marking header");
_Static_assert(sizeof(struct wire_option_ioam) == WIRE_IOAM_HEAD, "IOAM option");
_Static_assert(sizeof(struct wire_ioam_e2e_loss) == WIRE_IOAM_E2E_LOSS, "edge-to-edge header");
_Static_assert(sizeof(struct wire_ioam_e2e_delay) == WIRE_IOAM_E2E_DELAY, "edge-to-edge header");
_Static_assert(sizeof(struct wire_ioam_e2e) == WIRE_IOAM_E2E_BOTH, "edge-to-edge header");
_Static_assert(sizeof(struct wire_ioam_e2e_tagged_loss) == WIRE_IOAM_E2E_TAGGED_LOSS, "edge-to-edge header");
_Static_assert(sizeof(struct wire_ioam_e2e_tagged) == WIRE_IOAM_E2E_TAGGED, "edge-to-edge header");
_Static_assert(sizeof(struct wire_trace_entry) == WIRE_TRACE_ENTRY, "trace entry");
_Static_assert(__builtin_offsetof(struct wire_trace, trace) % 4 == 0, "Linux drops a trace option at another offset");
_Static_assert(sizeof(struct wire_trace) % 4 == 0, "an IOAM option begins at a multiple of 4");
_Static_assert(sizeof(struct wire_ioam_trace_delay) == WIRE_IOAM_TRACE_DELAY, "trace header");
_Static_assert(sizeof(struct wire_ioam_trace_loss) == WIRE_IOAM_TRACE_LOSS, "trace header");
_Static_assert(sizeof(struct wire_ioam_trace_tagged_loss) == WIRE_IOAM_TRACE_TAGGED_LOSS, "trace header");
_Static_assert(sizeof(struct wire_ioam_trace) == WIRE_IOAM_TRACE_BOTH, "trace header");
_Static_assert(sizeof(struct wire_ioam_trace_tagged) == WIRE_IOAM_TRACE_TAGGED, "trace header");
_Static_assert(WIRE_IOAM_TRACE_TAGGED + WIRE_INGRESS_PADDED <= WIRE_MARK_MAX, "longest header");

#endif
