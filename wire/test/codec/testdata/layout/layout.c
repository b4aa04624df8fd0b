/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * What a C compiler makes of wire.h. It prints every constant, size and offset
 * as "name value"; then the marks of standards as it lays them out; then for each line "options|shim <hex>" on standard input
 * what the structs find there: modules, next, sent, received, number, tag, and
 * the padding. The Go tests compare both with their own.
 */
#include <arpa/inet.h>
#include <linux/types.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "../../../../wire.h"

#define VALUE(name) printf(#name " %llu\n", (unsigned long long)(name))
#define SIZE(type) printf("sizeof." #type " %zu\n", sizeof(struct type))
#define OFFSET(type, member) printf(#type "." #member " %zu\n", offsetof(struct type, member))

static void print_layout(void)
{
	VALUE(WIRE_MODULES);
	VALUE(WIRE_MODULE_BYTES_MAX);
	VALUE(WIRE_DELAY);
	VALUE(WIRE_LOSS);
	VALUE(WIRE_SPARSE);
	VALUE(WIRE_TAGGED);
	VALUE(WIRE_TAG_LENGTH);
	VALUE(WIRE_TAG_TICKS);
	VALUE(WIRE_TAG_EPOCH);
	VALUE(WIRE_KEY_LENGTH);
	VALUE(WIRE_IPV4);
	VALUE(WIRE_IPV6);
	VALUE(WIRE_TCP);
	VALUE(WIRE_UDP);
	VALUE(WIRE_OTHER);
	VALUE(WIRE_FORWARDED);
	VALUE(WIRE_GSO);
	VALUE(WIRE_EXTENDED);
	VALUE(WIRE_OPTION_DELAY);
	VALUE(WIRE_OPTION_LOSS);
	VALUE(WIRE_OPTION_PADN);
	VALUE(WIRE_OPTION_DELAY_LENGTH);
	VALUE(WIRE_OPTION_LOSS_LENGTH);
	VALUE(WIRE_OPTION_SPARSE_LENGTH);
	VALUE(WIRE_OPTION_TAGGED_LENGTH);
	VALUE(WIRE_OPTION_TAGGED_SPARSE_LENGTH);
	VALUE(WIRE_NATIVE_DELAY);
	VALUE(WIRE_NATIVE_LOSS);
	VALUE(WIRE_NATIVE_BOTH);
	VALUE(WIRE_NATIVE_TAGGED_LOSS);
	VALUE(WIRE_NATIVE_MAX);
	VALUE(WIRE_SHIM_HEAD);
	VALUE(WIRE_SHIM_DELAY);
	VALUE(WIRE_SHIM_LOSS);
	VALUE(WIRE_SHIM_BOTH);
	VALUE(WIRE_SHIM_MAX);
	VALUE(WIRE_PROTOCOL);
	VALUE(WIRE_UDP_PORT);
	VALUE(WIRE_SINGLE);
	VALUE(WIRE_SEQUENCE_MASK);
	VALUE(WIRE_FLOW_STRIDE);
	VALUE(WIRE_NTP_UNIX);
	VALUE(WIRE_EXID);
	VALUE(WIRE_EXID_SPARSE);
	VALUE(WIRE_EXID_AGGREGATE);
	VALUE(WIRE_AGGREGATE);
	VALUE(WIRE_AGGREGATE_FIELDS);
	VALUE(WIRE_NATIVE_AGGREGATE_LOSS);
	VALUE(WIRE_EXPERIMENT_LENGTH);
	VALUE(WIRE_EXPERIMENT_TAGGED_LENGTH);
	VALUE(WIRE_TIME_SHIFT);
	VALUE(WIRE_UDP_OPTION_KIND);
	VALUE(WIRE_UDP_OPTION);
	VALUE(WIRE_UDP_OPTION_TAGGED);
	VALUE(WIRE_TCP_OPTION_KIND);
	VALUE(WIRE_TCP_ROOM_KIND);
	VALUE(WIRE_TCP_OPTION);
	VALUE(WIRE_TCP_OPTION_TAGGED);
	SIZE(wire_timestamp);
	SIZE(wire_delay);
	SIZE(wire_option_delay);
	SIZE(wire_option_loss);
	SIZE(wire_options);
	OFFSET(wire_native_delay, delay);
	OFFSET(wire_native_delay, delay.data.sent);
	OFFSET(wire_native_delay, delay.data.received);
	OFFSET(wire_native_delay, pad);
	OFFSET(wire_native_loss, loss);
	OFFSET(wire_native_loss, loss.sequence);
	OFFSET(wire_native_both, delay);
	OFFSET(wire_native_both, loss);
	OFFSET(wire_native_both, loss.sequence);
	OFFSET(wire_native_both, pad);
	OFFSET(wire_native_sparse, loss.flags);
	OFFSET(wire_native_sparse, pad);
	OFFSET(wire_native_tagged_loss, loss.sequence);
	OFFSET(wire_native_tagged_loss, loss.tag);
	OFFSET(wire_native_tagged_loss, pad);
	OFFSET(wire_native_tagged_both, loss.sequence);
	OFFSET(wire_native_tagged_both, loss.tag);
	OFFSET(wire_native_tagged_both, pad);
	OFFSET(wire_native_tagged_sparse, loss.sequence);
	OFFSET(wire_native_tagged_sparse, loss.flags);
	OFFSET(wire_native_tagged_sparse, loss.tag);
	OFFSET(wire_native_tagged_sparse, pad);
	OFFSET(wire_experiment, exid);
	OFFSET(wire_experiment, number);
	OFFSET(wire_experiment, time);
	OFFSET(wire_experiment_tagged, mark);
	OFFSET(wire_experiment_tagged, tag);
	OFFSET(wire_udp_option, mark);
	OFFSET(wire_udp_option_tagged, mark);
	OFFSET(wire_shim, next_protocol);
	OFFSET(wire_shim, length);
	OFFSET(wire_shim, flags);
	OFFSET(wire_shim_delay, delay);
	OFFSET(wire_shim_loss, sequence);
	OFFSET(wire_shim_both, delay);
	OFFSET(wire_shim_both, sequence);
	OFFSET(wire_shim_tagged_loss, tag);
	OFFSET(wire_shim_tagged_both, tag);
}

static void print_mark(int modules, int next, struct wire_delay delay, __be32 number, __be32 tag)
{
	printf("%d %d %08x%08x %08x%08x %08x %08x ", modules, next,
	       ntohl(delay.sent.seconds), ntohl(delay.sent.fraction),
	       ntohl(delay.received.seconds), ntohl(delay.received.fraction), ntohl(number), ntohl(tag));
}

static void print_hex(const __u8 *bytes, size_t size)
{
	for (size_t i = 0; i < size; i++)
		printf("%02x", bytes[i]);
	printf(".\n");
}

/* Both modules: the length of the loss option, which is in the same place, tells them apart. */
static void read_both(const __u8 *bytes)
{
	const struct wire_native_both *both = (const void *)bytes;
	const struct wire_native_sparse *sparse = (const void *)bytes;
	const struct wire_native_tagged_both *tagged = (const void *)bytes;
	const struct wire_native_tagged_sparse *tagged_sparse = (const void *)bytes;
	int modules = WIRE_DELAY | WIRE_LOSS, next = both->head.next_header;
	struct wire_delay delay = both->delay.data;
	__be32 number = both->loss.sequence;

	switch (both->loss.length) {
	case WIRE_OPTION_LOSS_LENGTH:
		print_mark(modules, next, delay, number, 0);
		print_hex(both->pad, sizeof(both->pad));
		return;
	case WIRE_OPTION_SPARSE_LENGTH:
		print_mark(modules | sparse->loss.flags, next, delay, number, 0);
		print_hex(sparse->pad, sizeof(sparse->pad));
		return;
	case WIRE_OPTION_TAGGED_LENGTH:
		print_mark(modules | WIRE_TAGGED, next, delay, number, tagged->loss.tag);
		print_hex(tagged->pad, sizeof(tagged->pad));
		return;
	case WIRE_OPTION_TAGGED_SPARSE_LENGTH:
		print_mark(modules | tagged_sparse->loss.flags | WIRE_TAGGED, next, delay, number,
			   tagged_sparse->loss.tag);
		print_hex(&tagged_sparse->pad, sizeof(tagged_sparse->pad));
	}
}

static void read_options(const __u8 *bytes)
{
	const struct wire_options *head = (const void *)bytes;
	const struct wire_native_delay *delay = (const void *)bytes;
	const struct wire_native_loss *loss = (const void *)bytes;
	const struct wire_native_tagged_loss *tagged = (const void *)bytes;
	const struct wire_delay none = {};

	switch (8 * (head->length + 1)) {
	case WIRE_NATIVE_DELAY:
		print_mark(WIRE_DELAY, head->next_header, delay->delay.data, 0, 0);
		print_hex(delay->pad, sizeof(delay->pad));
		return;
	case WIRE_NATIVE_LOSS:
		print_mark(WIRE_LOSS, head->next_header, none, loss->loss.sequence, 0);
		print_hex(NULL, 0);
		return;
	case WIRE_NATIVE_TAGGED_LOSS:
		print_mark(WIRE_LOSS | WIRE_TAGGED, head->next_header, none, tagged->loss.sequence, tagged->loss.tag);
		print_hex(tagged->pad, sizeof(tagged->pad));
		return;
	case WIRE_NATIVE_BOTH:
		read_both(bytes);
	}
}

static void read_shim(const __u8 *bytes)
{
	const struct wire_shim *head = (const void *)bytes;
	const struct wire_shim_delay *delay = (const void *)bytes;
	const struct wire_shim_loss *loss = (const void *)bytes;
	const struct wire_shim_both *both = (const void *)bytes;
	const struct wire_shim_tagged_loss *tagged_loss = (const void *)bytes;
	const struct wire_shim_tagged_both *tagged_both = (const void *)bytes;
	const struct wire_delay none = {};
	int tagged = head->type & WIRE_TAGGED;

	switch (head->type & ~WIRE_TAGGED) {
	case WIRE_DELAY:
		print_mark(head->type, head->next_protocol, delay->delay, 0, 0);
		break;
	case WIRE_LOSS:
		print_mark(head->type, head->next_protocol, none, loss->sequence, tagged ? tagged_loss->tag : 0);
		break;
	case WIRE_DELAY | WIRE_LOSS:
	case WIRE_DELAY | WIRE_LOSS | WIRE_SPARSE:
		print_mark(head->type, head->next_protocol, both->delay, both->sequence,
			   tagged ? tagged_both->tag : 0);
	}
	print_hex(NULL, 0);
}

/* The marks of standards, each written through its struct. */
#define STANDARD(layout, name, ...)                                               \
	do {                                                                    \
		struct layout mark = { __VA_ARGS__ };                             \
		printf("%s: ", name);                                           \
		print_hex((const void *)&mark, sizeof(mark));                   \
	} while (0)

#define HEAD(layout) { .next_header = 17, .length = sizeof(struct layout) / 8 - 1 }
#define TAG(value)                                                              \
	{ WIRE_OPTION_MODULE, 1 + WIRE_MODULE_TAG_LENGTH, WIRE_MODULE_TAG, htonl(value) }
#define IOAM(option, layout, ioam_kind)                                           \
	{ .type = option, .length = sizeof(struct layout) - 2, .kind = ioam_kind,  \
	  .namespace = htons(WIRE_IOAM_NAMESPACE) }
#define PDM                                                                     \
	{ WIRE_OPTION_PDM, WIRE_OPTION_PDM_LENGTH, 0x1d, 0x24, htons(1000), htons(8000), \
	  htons(0x9184), htons(0xe35f) }
#define ALTMARK                                                                 \
	{ WIRE_OPTION_ALTMARK, WIRE_OPTION_ALTMARK_LENGTH,                      \
	  htonl(0xabcde << WIRE_ALTMARK_FLOW_SHIFT | WIRE_ALTMARK_LOSS | WIRE_ALTMARK_DELAY) }
#define NUMBER htonl(WIRE_SINGLE | 5)
#define SENT { htonl(0xecd0a4e2), htonl(0x40000000) }
#define E2E                                                                     \
	{ IOAM(WIRE_OPTION_IOAM, wire_option_e2e, WIRE_IOAM_E2E),               \
	  htons(WIRE_E2E_SEQUENCE32 | WIRE_E2E_TIME), NUMBER, SENT }
#define ALIGN { WIRE_OPTION_PADN, 0 }
#define TRACE(layout)                                                            \
	{ HEAD(layout), ALIGN,                                                    \
	  { { WIRE_OPTION_IOAM_HOPS,                                            \
	      sizeof(struct wire_option_trace) - 2 + WIRE_TRACE_NODES * WIRE_TRACE_ENTRY, \
	      .kind = WIRE_IOAM_TRACE },                                        \
	    htons(WIRE_TRACE_ENTRY / 4 << WIRE_TRACE_ENTRY_SHIFT | WIRE_TRACE_NODES * WIRE_TRACE_ENTRY / 4), \
	    htonl(WIRE_TRACE_FIELDS) }, {} }

static void print_standards(void)
{
	struct wire_option_dex dex = {
		IOAM(WIRE_OPTION_IOAM, wire_option_dex, WIRE_IOAM_DEX), 0, WIRE_DEX_FLOW | WIRE_DEX_NUMBER,
		htonl(WIRE_TRACE_FIELDS), htonl(0x12345678), NUMBER,
	};
	struct wire_option_ingress ingress = {
		WIRE_OPTION_MODULE, 1 + WIRE_MODULE_INGRESS_LENGTH, WIRE_MODULE_INGRESS, htonl(42),
	};

	STANDARD(wire_pdm, "pdm, reply", HEAD(wire_pdm), PDM, { 1 });
	STANDARD(wire_pdm_tagged, "pdm, tagged", HEAD(wire_pdm_tagged), PDM, TAG(0x2dc791d1), { 1, 1 });
	STANDARD(wire_altmark, "altmark", HEAD(wire_altmark), ALTMARK);
	STANDARD(wire_altmark_tagged, "altmark, tagged", HEAD(wire_altmark_tagged), ALTMARK, TAG(0xdd870e63), 0);
	STANDARD(wire_ioam_e2e_loss, "ioam-e2e, number", HEAD(wire_ioam_e2e_loss), ALIGN,
		 { IOAM(WIRE_OPTION_IOAM, wire_option_e2e_loss, WIRE_IOAM_E2E), htons(WIRE_E2E_SEQUENCE32), NUMBER });
	STANDARD(wire_ioam_e2e_delay, "ioam-e2e, time", HEAD(wire_ioam_e2e_delay), ALIGN,
		 { IOAM(WIRE_OPTION_IOAM, wire_option_e2e_delay, WIRE_IOAM_E2E), htons(WIRE_E2E_TIME), SENT }, { 1, 2 });
	STANDARD(wire_ioam_e2e, "ioam-e2e", HEAD(wire_ioam_e2e), ALIGN, E2E);
	STANDARD(wire_ioam_e2e_tagged_loss, "ioam-e2e, number, tagged", HEAD(wire_ioam_e2e_tagged_loss), ALIGN,
		 { IOAM(WIRE_OPTION_IOAM, wire_option_e2e_loss, WIRE_IOAM_E2E), htons(WIRE_E2E_SEQUENCE32), NUMBER },
		 TAG(0x98ce36ed), 0);
	STANDARD(wire_ioam_e2e_tagged, "ioam-e2e, tagged", HEAD(wire_ioam_e2e_tagged), ALIGN, E2E, TAG(0x98ce36ed), 0);
	STANDARD(wire_ioam_trace_delay, "ioam-trace, 8 nodes empty, time", TRACE(wire_ioam_trace_delay),
		 { IOAM(WIRE_OPTION_IOAM, wire_option_e2e_delay, WIRE_IOAM_E2E), htons(WIRE_E2E_TIME), SENT });
	STANDARD(wire_ioam_trace_loss, "ioam-trace, 8 nodes empty, number", TRACE(wire_ioam_trace_loss),
		 { IOAM(WIRE_OPTION_IOAM, wire_option_e2e_loss, WIRE_IOAM_E2E), htons(WIRE_E2E_SEQUENCE32), NUMBER }, { 1, 2 });
	STANDARD(wire_ioam_trace_tagged_loss, "ioam-trace, 8 nodes empty, number, tagged", TRACE(wire_ioam_trace_tagged_loss),
		 { IOAM(WIRE_OPTION_IOAM, wire_option_e2e_loss, WIRE_IOAM_E2E), htons(WIRE_E2E_SEQUENCE32), NUMBER },
		 TAG(0x69342c26), { 1, 3 });
	STANDARD(wire_ioam_trace, "ioam-trace, 8 nodes empty", TRACE(wire_ioam_trace), E2E, { 1, 2 });
	STANDARD(wire_ioam_trace_tagged, "ioam-trace, 8 nodes empty, tagged", TRACE(wire_ioam_trace_tagged), E2E,
		 TAG(0x69342c26), { 1, 3 });
	printf("ioam-dex, option: ");
	print_hex((const void *)&dex, sizeof(dex));
	printf("ingress, option: ");
	print_hex((const void *)&ingress, sizeof(ingress));
}

int main(void)
{
	char kind[16], hex[2 * WIRE_NATIVE_MAX + 1];

	print_layout();
	print_standards();
	while (scanf("%15s %64s", kind, hex) == 2) {
		__u8 bytes[WIRE_NATIVE_MAX] = {};

		for (size_t i = 0; i < strlen(hex) / 2; i++)
			sscanf(hex + 2 * i, "%2hhx", &bytes[i]);
		if (strcmp(kind, "options") == 0)
			read_options(bytes);
		else
			read_shim(bytes);
	}
	return 0;
}
