/* DPDK's rte_gro on TCP from a capture: nanoseconds per packet, and how many packets it makes one.
 *
 * usage: gro CAPTURE [ROUNDS]
 *   CAPTURE  a pcap file of Ethernet, IPv4 without options and TCP (`tidegate bench juggler --asked FOLDER` writes some)
 *
 * Prints a line of JSON for each way: `none` only looks at the headers and frees packets, `burst` merges within each 32
 * packets, `context` holds packets of up to 64 flows for 52 us, the time of 64 KiB at 10 Gb/s. Packets are in memory when
 * time starts. rte_gro takes their checksums for right, and leaves packets with PSH alone. */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_cycles.h>
#include <rte_gro.h>
#include <rte_lcore.h>
#include <rte_mbuf.h>
#include <rte_mbuf_ptype.h>

#include "peer.h"

enum { BURST = 32, OUT = 256, FLOWS = 64, ITEMS = 32, ETHERNET = 14, IPV4 = 20, HOLD_US = 52 };
enum way { NONE, IN_BURST, CONTEXT, WAYS };

static const char *const names[WAYS] = { "none", "burst", "context" };

struct frame {
	uint8_t *bytes;
	uint32_t length;
};

static uint32_t word(const uint8_t *bytes)
{
	uint32_t value;
	memcpy(&value, bytes, sizeof value);
	return value;
}

static struct frame *load(const char *name, size_t *count)
{
	FILE *file = open_or_die(name);
	uint8_t header[24], record[16];
	struct frame *frames = NULL;

	/* The writer's byte order is this machine's; times, in microseconds or nanoseconds, are not used. */
	if (fread(header, sizeof header, 1, file) != 1 || (word(header) != 0xa1b2c3d4 && word(header) != 0xa1b23c4d))
		die("no capture in pcap format");
	while (fread(record, sizeof record, 1, file) == 1) {
		struct frame frame = { .length = word(record + 8) };
		if (frame.length < ETHERNET + IPV4 + 20 || frame.length > 1600 || !(frame.bytes = malloc(frame.length)))
			die("a packet that is not for this");
		if (fread(frame.bytes, frame.length, 1, file) != 1)
			die("a packet is cut");
		frames = room(frames, sizeof *frames, *count);
		frames[(*count)++] = frame;
	}
	fclose(file);
	*count -= *count % BURST;
	if (*count == 0)
		die("no packets");
	return frames;
}

static void fill(struct rte_mempool *pool, const struct frame *frames, struct rte_mbuf **packets, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct rte_mbuf *packet = rte_pktmbuf_alloc(pool);
		if (!packet)
			die("rte_pktmbuf_alloc");
		memcpy(rte_pktmbuf_append(packet, frames[i].length), frames[i].bytes, frames[i].length);
		packet->packet_type = RTE_PTYPE_L2_ETHER | RTE_PTYPE_L3_IPV4 | RTE_PTYPE_L4_TCP;
		packet->l2_len = ETHERNET;
		packet->l3_len = IPV4;
		packet->l4_len = (frames[i].bytes[ETHERNET + IPV4 + 12] >> 4) * 4;
		packets[i] = packet;
	}
}

static size_t release(struct rte_mbuf **packets, size_t count, uint64_t *sum)
{
	for (size_t i = 0; i < count; i++) {
		*sum += *rte_pktmbuf_mtod_offset(packets[i], uint8_t *, ETHERNET + 12);
		rte_pktmbuf_free(packets[i]);
	}
	return count;
}

/* How many packets leave. */
static size_t round_of(enum way way, void *context, const struct rte_gro_param *param, struct rte_mbuf **packets,
		       size_t count)
{
	struct rte_mbuf *out[OUT];
	uint64_t hold = rte_get_tsc_hz() / 1000000 * HOLD_US, sum = 0;
	size_t left = 0;

	for (size_t i = 0; i < count; i += BURST) {
		uint16_t n = BURST;
		for (size_t j = i + BURST; j < count && j < i + 2 * BURST; j++)
			rte_prefetch0(packets[j]);
		if (way == IN_BURST)
			n = rte_gro_reassemble_burst(packets + i, BURST, param);
		if (way == CONTEXT)
			n = rte_gro_reassemble(packets + i, BURST, context);
		left += release(packets + i, n, &sum);
		while (way == CONTEXT && (n = rte_gro_timeout_flush(context, hold, RTE_GRO_TCP_IPV4, out, OUT)) > 0)
			left += release(out, n, &sum);
	}
	if (way == CONTEXT) {
		uint16_t n;
		while ((n = rte_gro_timeout_flush(context, 0, RTE_GRO_TCP_IPV4, out, OUT)) > 0)
			left += release(out, n, &sum);
	}
	keep(sum);
	return left;
}

int main(int argc, char **argv)
{
	if (argc < 2)
		die("usage: gro CAPTURE [ROUNDS]");
	int rounds = argc > 2 ? atoi(argv[2]) : 9;
	start_eal();

	size_t count = 0;
	struct frame *frames = load(argv[1], &count);
	struct rte_mempool *pool =
		rte_pktmbuf_pool_create("packets", count + 1, 0, 0, RTE_MBUF_DEFAULT_BUF_SIZE, rte_socket_id());
	struct rte_mbuf **packets = calloc(count, sizeof *packets);
	double *times = calloc(rounds, sizeof *times);
	if (!pool || !packets || !times)
		die("memory for packets");
	struct rte_gro_param param = {
		.gro_types = RTE_GRO_TCP_IPV4,
		.max_flow_num = FLOWS,
		.max_item_per_flow = ITEMS,
		.socket_id = rte_socket_id(),
	};
	void *context = rte_gro_ctx_create(&param);
	if (!context)
		die("rte_gro_ctx_create");
	for (enum way way = NONE; way < WAYS; way++) {
		size_t left = 0;
		/* The first round touches all memory. */
		for (int round = -1; round < rounds; round++) {
			fill(pool, frames, packets, count);
			double start = now();
			left = round_of(way, context, &param, packets, count);
			if (round >= 0)
				times[round] = (now() - start) / count;
		}
		printf("{\"peer\": \"rte_gro\", \"way\": \"%s\", \"packets\": %zu, \"ns\": %.2f, \"merged\": %.2f}\n",
		       names[way], count, median(times, rounds) * 1e9, (double)count / left);
	}
	return 0;
}
