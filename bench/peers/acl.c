/* DPDK's rte_acl on ClassBench rules: nanoseconds per look-up, and whether it finds the expected rules.
 *
 * usage: acl RULES HEADERS [ROUNDS]
 *   RULES    lines "@src/len dst/len sport : sport dport : dport proto/mask ..."
 *   HEADERS  lines "src dst sport dport proto rule", decimal; rule is the first matching line from 1 on, 0 for none,
 *            -1 for not known (`tidegate bench classify --asked FILE` writes such a file)
 *
 * Prints one line of JSON. Headers are looked up 32 at a time, as the benchmark beside it does. */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <rte_acl.h>
#include <rte_byteorder.h>
#include <rte_eal.h>
#include <rte_malloc.h>

#include "peer.h"

enum { PROTOCOL, SOURCE, DESTINATION, SOURCE_PORT, DESTINATION_PORT, FIELDS };
enum { BURST = 32 };

struct tuple {
	uint8_t protocol;
	uint8_t padding[3];
	uint32_t source, destination;
	uint16_t source_port, destination_port;
};

RTE_ACL_RULE_DEF(rule, FIELDS);

#define FIELD(number, kind, width, group, member) \
	{ .type = RTE_ACL_FIELD_TYPE_##kind, .size = width, .field_index = number, .input_index = group, \
	  .offset = offsetof(struct tuple, member) }

static const struct rte_acl_field_def layout[FIELDS] = {
	FIELD(PROTOCOL, BITMASK, 1, 0, protocol),
	FIELD(SOURCE, MASK, 4, 1, source),
	FIELD(DESTINATION, MASK, 4, 2, destination),
	FIELD(SOURCE_PORT, RANGE, 2, 3, source_port),
	FIELD(DESTINATION_PORT, RANGE, 2, 3, destination_port),
};

static uint32_t address(const unsigned *byte)
{
	return byte[0] << 24 | byte[1] << 16 | byte[2] << 8 | byte[3];
}

static int parse_rule(const char *line, struct rule *rule)
{
	unsigned s[5], d[5], low[2], high[2], protocol, mask;

	if (sscanf(line, "@%u.%u.%u.%u/%u %u.%u.%u.%u/%u %u : %u %u : %u %x/%x", s, s + 1, s + 2, s + 3, s + 4,
		   d, d + 1, d + 2, d + 3, d + 4, low, high, low + 1, high + 1, &protocol, &mask) != 16)
		return 0;
	memset(rule, 0, sizeof *rule);
	rule->field[PROTOCOL].value.u8 = protocol;
	rule->field[PROTOCOL].mask_range.u8 = mask;
	rule->field[SOURCE].value.u32 = address(s);
	rule->field[SOURCE].mask_range.u32 = s[4];
	rule->field[DESTINATION].value.u32 = address(d);
	rule->field[DESTINATION].mask_range.u32 = d[4];
	for (int i = 0; i < 2; i++) {
		rule->field[SOURCE_PORT + i].value.u16 = low[i];
		rule->field[SOURCE_PORT + i].mask_range.u16 = high[i];
	}
	return 1;
}

int main(int argc, char **argv)
{
	if (argc < 3)
		die("usage: acl RULES HEADERS [ROUNDS]");
	int rounds = argc > 3 ? atoi(argv[3]) : 9;
	start_eal();

	struct rte_acl_param param = { .name = "rules", .socket_id = 0, .rule_size = RTE_ACL_RULE_SZ(FIELDS),
				       .max_rule_num = 1 << 20 };
	struct rte_acl_ctx *acl = rte_acl_create(&param);
	if (!acl)
		die("rte_acl_create");
	char line[512];
	uint32_t rules = 0;
	FILE *file = open_or_die(argv[1]);
	double start = now();
	while (fgets(line, sizeof line, file)) {
		struct rule rule;
		if (!parse_rule(line, &rule))
			continue;
		rules++;
		rule.data.category_mask = 1;
		rule.data.priority = RTE_ACL_MAX_PRIORITY - rules;
		rule.data.userdata = rules;
		if (rte_acl_add_rules(acl, (struct rte_acl_rule *)&rule, 1))
			die("rte_acl_add_rules");
	}
	fclose(file);
	struct rte_acl_config config = { .num_categories = 1, .num_fields = FIELDS };
	memcpy(config.defs, layout, sizeof layout);
	if (rte_acl_build(acl, &config))
		die("rte_acl_build");
	double built = now() - start;

	size_t count = 0;
	struct tuple *headers = NULL;
	int *expected = NULL;
	file = open_or_die(argv[2]);
	while (fgets(line, sizeof line, file)) {
		uint32_t source, destination;
		unsigned source_port, destination_port, protocol;
		int rule;
		if (sscanf(line, "%" SCNu32 " %" SCNu32 " %u %u %u %d", &source, &destination, &source_port,
			   &destination_port, &protocol, &rule) != 6)
			continue;
		headers = room(headers, sizeof *headers, count);
		expected = room(expected, sizeof *expected, count);
		headers[count] = (struct tuple){ .protocol = protocol, .source = rte_cpu_to_be_32(source),
						 .destination = rte_cpu_to_be_32(destination),
						 .source_port = rte_cpu_to_be_16(source_port),
						 .destination_port = rte_cpu_to_be_16(destination_port) };
		expected[count++] = rule;
	}
	fclose(file);
	count -= count % BURST;
	if (count == 0)
		die("no headers");

	double *times = calloc(rounds, sizeof *times);
	size_t wrong = 0;
	for (int round = 0; round < rounds; round++) {
		uint64_t sum = 0;
		start = now();
		for (size_t i = 0; i < count; i += BURST) {
			const uint8_t *data[BURST];
			uint32_t results[BURST];
			for (int j = 0; j < BURST; j++)
				data[j] = (const uint8_t *)&headers[i + j];
			if (rte_acl_classify(acl, data, results, BURST, 1))
				die("rte_acl_classify");
			for (int j = 0; j < BURST; j++)
				sum += results[j];
		}
		times[round] = (now() - start) / count;
		keep(sum);
	}
	for (size_t i = 0; i < count; i++) {
		const uint8_t *data = (const uint8_t *)&headers[i];
		uint32_t result;
		rte_acl_classify(acl, &data, &result, 1, 1);
		wrong += expected[i] >= 0 && result != (uint32_t)expected[i];
	}
	printf("{\"peer\": \"rte_acl\", \"rules\": %" PRIu32 ", \"headers\": %zu, \"ns\": %.2f, \"build_s\": %.3f, "
	       "\"memory_mib\": %.1f, \"wrong\": %zu}\n",
	       rules, count, median(times, rounds) * 1e9, built, memory_mib(), wrong);
	return 0;
}
