/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Which packets to mark. */
#ifndef PILLION_SOURCE_RULE_H
#define PILLION_SOURCE_RULE_H

#include "../bpf/packet.h"
#include "../bpf/rule.h"

/*
 * What user space asks for; it fills the table that is not in use, then turns to it,
 * so that no packet sees half a change. RULE_TABLE: which table. RULE_TARGETS: the
 * destination must be in targets too. The lower bits: how many rules; one that fits
 * is enough, of none none fits.
 */
#define RULE_TABLE 0x80000000u
#define RULE_TARGETS 0x40000000u
#define RULE_COUNT 0xffffu

const volatile __u32 every_packet; /* there are no rules at all */
volatile __u32 rule_choice;
volatile __u32 rules_state PER_PACKET = 1; /* counted up by the agent when rules, targets or paths change */
struct rule rules[2 * RULES_MAX];

struct rule_target {
	__be32 address[4];
	__u32 family;
};

/* Key: destination address. Value: nothing. Written by user space. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct rule_target);
	__type(value, __u8);
} targets SEC(".maps");

/* Returns the policy of the first rule that fits, plus one, or 0. */
__noinline int rule_any(const struct flow_key *key)
{
	__u32 choice = rule_choice, first;

	if (!key)
		return 0;
	first = choice & RULE_TABLE ? RULES_MAX : 0;
	for (__u32 i = 0; i < RULES_MAX; i++) {
		if (i >= (choice & RULE_COUNT))
			return 0;
		if (rule_fits(&rules[first + i], key))
			return rules[first + i].policy + 1;
	}
	return 0;
}

static __always_inline int rule_target(const struct flow_key *key)
{
	struct rule_target target = { .family = key->family };

	copy_address(target.address, key->dst);
	return !!bpf_map_lookup_elem(&targets, &target);
}

/* As rule_any; if there are no rules, the first policy applies to every packet. */
static __always_inline int rule_match(const struct flow_key *key)
{
	if (every_packet)
		return 1;
	if ((rule_choice & RULE_TARGETS) && !rule_target(key))
		return 0;
	return rule_any(key);
}

#endif
