/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * What a C compiler makes of wire.h. It prints every constant, size and offset
 * as "name value"; then for each line "options|shim <hex>" on standard input
 * what the structs find there: modules, next, sent, received, number, and the
 * padding. The Go tests compare both with their own.
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
	VALUE(WIRE_DELAY);
	VALUE(WIRE_LOSS);
	VALUE(WIRE_SPARSE);
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
	VALUE(WIRE_NATIVE_DELAY);
	VALUE(WIRE_NATIVE_LOSS);
	VALUE(WIRE_NATIVE_BOTH);
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
	VALUE(WIRE_EXPERIMENT_LENGTH);
	VALUE(WIRE_TIME_SHIFT);
	VALUE(WIRE_UDP_OPTION_KIND);
	VALUE(WIRE_UDP_OPTION);
	VALUE(WIRE_TCP_OPTION_KIND);
	VALUE(WIRE_TCP_ROOM_KIND);
	VALUE(WIRE_TCP_OPTION);
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
	OFFSET(wire_experiment, exid);
	OFFSET(wire_experiment, number);
	OFFSET(wire_experiment, time);
	OFFSET(wire_udp_option, mark);
	OFFSET(wire_shim, next_protocol);
	OFFSET(wire_shim, length);
	OFFSET(wire_shim, flags);
	OFFSET(wire_shim_delay, delay);
	OFFSET(wire_shim_loss, sequence);
	OFFSET(wire_shim_both, delay);
	OFFSET(wire_shim_both, sequence);
}

static void print_mark(int modules, int next, struct wire_delay delay, __be32 number)
{
	printf("%d %d %08x%08x %08x%08x %08x ", modules, next,
	       ntohl(delay.sent.seconds), ntohl(delay.sent.fraction),
	       ntohl(delay.received.seconds), ntohl(delay.received.fraction), ntohl(number));
}

static void print_hex(const __u8 *bytes, size_t size)
{
	for (size_t i = 0; i < size; i++)
		printf("%02x", bytes[i]);
	printf(".\n");
}

static void read_options(const __u8 *bytes)
{
	const struct wire_options *head = (const void *)bytes;
	const struct wire_native_delay *delay = (const void *)bytes;
	const struct wire_native_loss *loss = (const void *)bytes;
	const struct wire_native_both *both = (const void *)bytes;
	const struct wire_native_sparse *sparse = (const void *)bytes;
	const struct wire_delay none = {};

	switch (8 * (head->length + 1)) {
	case WIRE_NATIVE_DELAY:
		print_mark(WIRE_DELAY, head->next_header, delay->delay.data, 0);
		print_hex(delay->pad, sizeof(delay->pad));
		return;
	case WIRE_NATIVE_LOSS:
		print_mark(WIRE_LOSS, head->next_header, none, loss->loss.sequence);
		print_hex(NULL, 0);
		return;
	case WIRE_NATIVE_BOTH:
		if (sparse->loss.length == WIRE_OPTION_SPARSE_LENGTH) {
			print_mark(WIRE_DELAY | WIRE_LOSS | sparse->loss.flags, head->next_header,
				   sparse->delay.data, sparse->loss.sequence);
			print_hex(sparse->pad, sizeof(sparse->pad));
			return;
		}
		print_mark(WIRE_DELAY | WIRE_LOSS, head->next_header, both->delay.data, both->loss.sequence);
		print_hex(both->pad, sizeof(both->pad));
	}
}

static void read_shim(const __u8 *bytes)
{
	const struct wire_shim *head = (const void *)bytes;
	const struct wire_shim_delay *delay = (const void *)bytes;
	const struct wire_shim_loss *loss = (const void *)bytes;
	const struct wire_shim_both *both = (const void *)bytes;
	const struct wire_delay none = {};

	switch (head->type) {
	case WIRE_DELAY:
		print_mark(head->type, head->next_protocol, delay->delay, 0);
		break;
	case WIRE_LOSS:
		print_mark(head->type, head->next_protocol, none, loss->sequence);
		break;
	case WIRE_DELAY | WIRE_LOSS:
	case WIRE_DELAY | WIRE_LOSS | WIRE_SPARSE:
		print_mark(head->type, head->next_protocol, both->delay, both->sequence);
	}
	print_hex(NULL, 0);
}

int main(void)
{
	char kind[16], hex[2 * WIRE_NATIVE_MAX + 1];

	print_layout();
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
