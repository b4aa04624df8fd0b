/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* The pdm encoding: Performance and Diagnostic Metrics (RFC 8250) in a Destination Options header. */
#ifndef PILLION_SOURCE_PDM_H
#define PILLION_SOURCE_PDM_H

#include "echo.h"
#include "options.h"
#include "tag.h"

#define PDM_WORD(first, second, third, fourth) \
	bpf_htonl((__u32)(first) << 24 | (second) << 16 | (third) << 8 | (fourth))

static __always_inline int pdm_insert(struct __sk_buff *skb, struct work *w, struct numbering *numbers)
{
	int outcome = options_room(skb, w, NEXT_OPTIONS);
	__be32 *at = (__be32 *)w->mark;
	struct answer answer = {};
	__u32 number, tag;

	if (outcome)
		return outcome;
	number = bpf_ntohl(number_take(numbers, 1)) & 0xffff;
	at[0] = PDM_WORD(0, 0, WIRE_OPTION_PDM, WIRE_OPTION_PDM_LENGTH);
	if (numbers != &unnumbered)
		echo_send(&w->flow, number, &answer);
	at[1] = PDM_WORD(answer.host.scale, answer.round.scale, number >> 8, number & 0xff);
	at[2] = bpf_htonl((__u32)answer.last << 16 | answer.host.value);
	at[3] = bpf_htonl((__u32)answer.round.value << 16 | WIRE_OPTION_PADN << 8);
	if (tagged_marks) {
		tag = bpf_ntohl(tag_make(&w->room.key, tag_epoch_now(), bpf_htonl(number), WIRE_TAG_PDM));
		at[3] = bpf_htonl((__u32)answer.round.value << 16 | WIRE_OPTION_MODULE << 8 | (1 + WIRE_MODULE_TAG_LENGTH));
		at[4] = bpf_htonl(WIRE_MODULE_TAG << 24 | tag >> 8);
		at[5] = bpf_htonl(tag << 24 | WIRE_OPTION_PADN << 16 | 1 << 8);
	}
	return options_store(skb, w, NEXT_OPTIONS);
}

#define PDM_INSERT pdm_insert

#endif
