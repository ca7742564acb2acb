/* DPDK's rte_lpm on a table of IPv4 routes: nanoseconds per look-up, and whether it finds the expected routes.
 *
 * usage: lpm ROUTES ADDRESSES [ROUNDS]
 *   ROUTES     lines "address/length ...": others (IPv6) do not count; each leads to its number, from 0 on
 *   ADDRESSES  lines "address number", decimal; -1 for no route (`tidegate bench lpm --asked FILE` writes such a file)
 *
 * Prints one line of JSON. Addresses are looked up 32 at a time, as the benchmark beside it does. */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <rte_lpm.h>

#include "peer.h"

enum { BURST = 32 };

int main(int argc, char **argv)
{
	if (argc < 3)
		die("usage: lpm ROUTES ADDRESSES [ROUNDS]");
	int rounds = argc > 3 ? atoi(argv[3]) : 9;
	start_eal();

	struct rte_lpm_config config = { .max_rules = 2000000, .number_tbl8s = 1 << 16 };
	struct rte_lpm *lpm = rte_lpm_create("routes", 0, &config);
	if (!lpm)
		die("rte_lpm_create");
	char line[512];
	uint32_t routes = 0;
	FILE *file = open_or_die(argv[1]);
	double start = now();
	while (fgets(line, sizeof line, file)) {
		unsigned byte[4], length;
		if (sscanf(line, "%u.%u.%u.%u/%u", byte, byte + 1, byte + 2, byte + 3, &length) != 5)
			continue;
		uint32_t address = byte[0] << 24 | byte[1] << 16 | byte[2] << 8 | byte[3];
		if (rte_lpm_add(lpm, address, length, routes++))
			die("rte_lpm_add");
	}
	fclose(file);
	double built = now() - start;

	size_t count = 0;
	uint32_t *addresses = NULL;
	int64_t *expected = NULL;
	file = open_or_die(argv[2]);
	while (fgets(line, sizeof line, file)) {
		uint32_t address;
		int64_t route;
		if (sscanf(line, "%" SCNu32 " %" SCNd64, &address, &route) != 2)
			continue;
		addresses = room(addresses, sizeof *addresses, count);
		expected = room(expected, sizeof *expected, count);
		addresses[count] = address;
		expected[count++] = route;
	}
	fclose(file);
	count -= count % BURST;
	if (count == 0)
		die("no addresses");

	double *times = calloc(rounds, sizeof *times);
	size_t wrong = 0;
	for (int round = 0; round < rounds; round++) {
		uint64_t sum = 0;
		start = now();
		for (size_t i = 0; i < count; i += BURST) {
			uint32_t hops[BURST];
			rte_lpm_lookup_bulk(lpm, addresses + i, hops, BURST);
			for (int j = 0; j < BURST; j++)
				sum += hops[j];
		}
		times[round] = (now() - start) / count;
		keep(sum);
	}
	for (size_t i = 0; i < count; i++) {
		uint32_t hop;
		int64_t found = rte_lpm_lookup(lpm, addresses[i], &hop) ? -1 : (int64_t)hop;
		wrong += found != expected[i];
	}
	printf("{\"peer\": \"rte_lpm\", \"routes\": %" PRIu32 ", \"addresses\": %zu, \"ns\": %.2f, \"build_s\": %.3f, "
	       "\"memory_mib\": %.1f, \"wrong\": %zu}\n",
	       routes, count, median(times, rounds) * 1e9, built, memory_mib(), wrong);
	return 0;
}
