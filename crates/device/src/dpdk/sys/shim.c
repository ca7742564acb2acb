/* Wrappers of DPDK's functions, many of which are inline functions in C, and packet memory that Tidegate
 * shares with DPDK.
 *
 * A `memory` has one mbuf header for each slot of a packet pool. The buffer of a header is always this slot
 * (a pinned external buffer, see rte_mbuf.h). DPDK sees the memory as a mempool. The mempool gives drivers
 * the headers from a stack, which are those of slots that the pool has handed out to DPDK. A header that a
 * driver frees returns to the stack. So a slot belongs at any time to the pool, to a packet, or to this
 * memory and the drivers that use it, and a packet is received without a copy.
 *
 * The stack belongs to the worker of the pool: `here` is the memory whose worker calls DPDK on this thread.
 * Headers that other threads free (another worker, to which a driver has passed them, or a thread of DPDK)
 * wait in a list with a lock. tg_memory_free_count moves them to the stack.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rte_bus.h>
#include <rte_dev.h>
#include <rte_devargs.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_log.h>
#include <rte_mbuf.h>
#include <rte_mbuf_pool_ops.h>
#include <rte_memory.h>
#include <rte_mempool.h>
#include <rte_spinlock.h>

/* The number of bytes at the start of a slot that drivers do not see. They are part of the pool's headroom of
 * 256 bytes; the rest of it is the headroom of drivers. */
#define FRONT (256 - RTE_PKTMBUF_HEADROOM)

struct memory {
	struct rte_mempool *pool;
	/* The header of each slot, by the number of the slot in the pool's device area. */
	struct rte_mbuf **headers;
	char *base;
	size_t stride;
	uint32_t count;
	/* 1 while DPDK adds the new headers to the mempool; they are not put onto the stack then. */
	int making;
	/* The number of slots that belong to DPDK: their headers are on the stack, in `others`, or with
	 * drivers. */
	uint32_t lent;
	/* The number of headers on the stack. */
	uint32_t free;
	struct rte_mbuf **stack;
	/* The headers that other threads have freed. The lock protects the list and its length. */
	rte_spinlock_t lock;
	uint32_t others_count;
	struct rte_mbuf **others;
};

/* The memory whose worker calls DPDK on this thread at the moment; NULL otherwise. */
static __thread struct memory *here;

static int slots_alloc(struct rte_mempool *pool)
{
	pool->pool_data = pool->pool_config;
	return 0;
}

static void slots_free(struct rte_mempool *pool)
{
	(void)pool;
}

static int slots_enqueue(struct rte_mempool *pool, void *const *objects, unsigned int n)
{
	struct memory *memory = pool->pool_data;
	if (memory->making)
		return 0;
	if (memory == here) {
		for (unsigned int i = 0; i < n && memory->free < memory->count; i++)
			memory->stack[memory->free++] = objects[i];
		return 0;
	}
	rte_spinlock_lock(&memory->lock);
	uint32_t count = memory->others_count;
	for (unsigned int i = 0; i < n && count < memory->count; i++)
		memory->others[count++] = objects[i];
	__atomic_store_n(&memory->others_count, count, __ATOMIC_RELEASE);
	rte_spinlock_unlock(&memory->lock);
	return 0;
}

static int slots_dequeue(struct rte_mempool *pool, void **objects, unsigned int n)
{
	struct memory *memory = pool->pool_data;
	if (memory != here || memory->free < n)
		return -ENOBUFS;
	for (unsigned int i = 0; i < n; i++)
		objects[i] = memory->stack[--memory->free];
	return 0;
}

static unsigned int slots_count(const struct rte_mempool *pool)
{
	return ((struct memory *)pool->pool_data)->free;
}

static const struct rte_mempool_ops slots_ops = {
	.name = "tidegate",
	.alloc = slots_alloc,
	.free = slots_free,
	.enqueue = slots_enqueue,
	.dequeue = slots_dequeue,
	.get_count = slots_count,
};

RTE_MEMPOOL_REGISTER_OPS(slots_ops);

/* Puts a header onto the stack when a second mbuf had a reference to its buffer and was the last to release
 * it. */
static void last_reference(void *address, void *header)
{
	struct rte_mbuf *mbuf = header;
	(void)address;
	rte_mbuf_ext_refcnt_set(mbuf->shinfo, 1);
	mbuf->ol_flags = RTE_MBUF_F_EXTERNAL;
	rte_mbuf_raw_free(mbuf);
}

static void make_header(struct rte_mempool *pool, void *argument, void *object, unsigned int i)
{
	struct memory *memory = argument;
	struct rte_mbuf *mbuf = object;
	struct rte_mbuf_ext_shared_info *shared = (void *)(mbuf + 1);
	memset(mbuf, 0, sizeof(*mbuf));
	mbuf->buf_addr = memory->base + i * memory->stride + FRONT;
	rte_mbuf_iova_set(mbuf, (rte_iova_t)(uintptr_t)mbuf->buf_addr);
	mbuf->buf_len = memory->stride - FRONT;
	mbuf->data_off = RTE_PKTMBUF_HEADROOM;
	mbuf->pool = pool;
	mbuf->nb_segs = 1;
	mbuf->port = RTE_MBUF_PORT_INVALID;
	mbuf->ol_flags = RTE_MBUF_F_EXTERNAL;
	rte_mbuf_refcnt_set(mbuf, 1);
	shared->free_cb = last_reference;
	shared->fcb_opaque = mbuf;
	rte_mbuf_ext_refcnt_set(shared, 1);
	mbuf->shinfo = shared;
	memory->headers[i] = mbuf;
}

static void memory_end(struct memory *memory)
{
	if (!memory)
		return;
	rte_mempool_free(memory->pool);
	free(memory->headers);
	free(memory->stack);
	free(memory->others);
	free(memory);
}

/* Creates a memory with a header for each of `count` slots, of which the first begins at `base`. Returns NULL
 * if there is not enough memory. */
struct memory *tg_memory_new(const char *name, void *base, size_t stride, uint32_t count)
{
	struct memory *memory = calloc(1, sizeof(*memory));
	if (!memory)
		return NULL;
	memory->base = base;
	memory->stride = stride;
	memory->count = count;
	memory->headers = calloc(count, sizeof(void *));
	memory->stack = calloc(count, sizeof(void *));
	memory->others = calloc(count, sizeof(void *));
	memory->making = 1;
	rte_spinlock_init(&memory->lock);
	unsigned int size = sizeof(struct rte_mbuf) + sizeof(struct rte_mbuf_ext_shared_info);
	struct rte_pktmbuf_pool_private private = {
		.mbuf_data_room_size = stride - FRONT,
		.flags = RTE_PKTMBUF_POOL_F_PINNED_EXT_BUF,
	};
	if (memory->headers && memory->stack && memory->others)
		memory->pool = rte_mempool_create_empty(name, count, size, 0, sizeof(private), SOCKET_ID_ANY, 0);
	if (!memory->pool || rte_mempool_set_ops_byname(memory->pool, "tidegate", memory) != 0) {
		memory_end(memory);
		return NULL;
	}
	/* Writes the private data of the mempool, as rte_pktmbuf_pool_init does. */
	memcpy(rte_mempool_get_priv(memory->pool), &private, sizeof(private));
	if (rte_mempool_populate_default(memory->pool) != (int)count) {
		memory_end(memory);
		return NULL;
	}
	rte_mempool_obj_iter(memory->pool, make_header, memory);
	memory->making = 0;
	return memory;
}

/* Moves the headers that other threads have freed to the stack. Returns the number of headers on the stack.
 */
uint32_t tg_memory_free_count(struct memory *memory)
{
	if (__atomic_load_n(&memory->others_count, __ATOMIC_ACQUIRE) > 0) {
		rte_spinlock_lock(&memory->lock);
		while (memory->others_count > 0 && memory->free < memory->count)
			memory->stack[memory->free++] = memory->others[--memory->others_count];
		rte_spinlock_unlock(&memory->lock);
	}
	return memory->free;
}

/* Puts the header of a slot that the pool has handed out onto the stack. */
void tg_memory_give(struct memory *memory, uint32_t slot)
{
	if (slot < memory->count && memory->free < memory->count) {
		memory->stack[memory->free++] = memory->headers[slot];
		memory->lent++;
	}
}

/* Empties the stack, for a new pool at the same address that has handed out no slots. Returns 1; or 0,
 * without emptying the stack, if drivers still have headers. */
int tg_memory_reset(struct memory *memory)
{
	if (tg_memory_free_count(memory) != memory->lent)
		return 0;
	memory->free = 0;
	memory->lent = 0;
	return 1;
}

static uint64_t offset_of(const struct memory *memory, const struct rte_mbuf *mbuf)
{
	return (uint64_t)((const char *)mbuf->buf_addr - memory->base);
}

/* Takes a header from the stack and returns the number of its slot. Returns UINT32_MAX if the stack is empty.
 */
uint32_t tg_memory_take(struct memory *memory)
{
	if (memory->free == 0)
		return UINT32_MAX;
	memory->lent--;
	return offset_of(memory, memory->stack[--memory->free]) / memory->stride;
}

/* The size in bytes of a buffer in a pool of DPDK's own buffers: a driver's headroom and the longest frame
 * that fits into a slot (SLOT_CAPACITY). */
#define OWN_BUFFER (RTE_PKTMBUF_HEADROOM + 2112)

/* Creates a pool of DPDK's own buffers, for ports that cannot use the slots of a packet pool. With `gapless`,
 * its objects follow each other without a gap, also if pages are small, as the driver for AF_XDP requires.
 * Returns NULL if DPDK has no memory for the pool. */
struct rte_mempool *tg_own_pool(const char *name, uint32_t count, int gapless)
{
	if (!gapless)
		return rte_pktmbuf_pool_create(name, count, 0, 0, OWN_BUFFER, SOCKET_ID_ANY);
	unsigned int size = sizeof(struct rte_mbuf) + RTE_MBUF_DEFAULT_BUF_SIZE;
	struct rte_pktmbuf_pool_private private = { .mbuf_data_room_size = RTE_MBUF_DEFAULT_BUF_SIZE };
	struct rte_mempool *pool = rte_mempool_create_empty(name, count, size, 0, sizeof(private), SOCKET_ID_ANY,
							    RTE_MEMPOOL_F_NO_IOVA_CONTIG);
	if (!pool)
		return NULL;
	rte_pktmbuf_pool_init(pool, &private);
	if (rte_mempool_set_ops_byname(pool, rte_mbuf_best_mempool_ops(), NULL) != 0
	    || rte_mempool_populate_default(pool) != (int)count) {
		rte_mempool_free(pool);
		return NULL;
	}
	rte_mempool_obj_iter(pool, rte_pktmbuf_init, NULL);
	return pool;
}

uint32_t tg_own_pool_count(const struct rte_mempool *pool)
{
	return rte_mempool_avail_count(pool);
}

/* A received packet. If `mbuf` is NULL, the packet lies in a slot of the worker's pool, which does not belong
 * to DPDK any more. Otherwise the packet must be read with tg_read and then freed with tg_free. */
struct received {
	struct rte_mbuf *mbuf;
	/* The position of the packet's first byte, in bytes from the start of the first slot; 0 if `mbuf` is
	 * not NULL. */
	uint64_t offset;
	uint32_t length;
	uint32_t hash;
	/* 1 if the port has verified the transport checksum after the first IP header, and it is right. */
	uint32_t is_right;
};

#define BURST 256

/* Puts a VLAN tag back into a frame from which it was removed. Tidegate does not ask drivers to remove tags,
 * but the driver for packet sockets gets the tag separately from the frame and cannot put it into an external
 * buffer. The frame stays without its tag if it has no headroom for the tag, shares its buffer, or is shorter
 * than two Ethernet addresses. */
static void put_tag_back(struct rte_mbuf *mbuf)
{
	uint8_t *to = NULL;
	if (rte_mbuf_refcnt_read(mbuf) == 1 && mbuf->data_len >= 2 * RTE_ETHER_ADDR_LEN)
		to = (uint8_t *)rte_pktmbuf_prepend(mbuf, RTE_VLAN_HLEN);
	if (!to)
		return;
	memmove(to, to + RTE_VLAN_HLEN, 2 * RTE_ETHER_ADDR_LEN);
	to[12] = RTE_ETHER_TYPE_VLAN >> 8;
	to[13] = RTE_ETHER_TYPE_VLAN & 0xff;
	to[14] = mbuf->vlan_tci >> 8;
	to[15] = mbuf->vlan_tci & 0xff;
	mbuf->ol_flags &= ~(RTE_MBUF_F_RX_VLAN | RTE_MBUF_F_RX_VLAN_STRIPPED);
}

/* Receives at most `most` packets (and at most BURST) from a queue. Returns their number. */
uint16_t tg_receive(struct memory *memory, uint16_t port, uint16_t queue, struct received *to, uint16_t most)
{
	struct rte_mbuf *mbufs[BURST];
	here = memory;
	uint16_t n = rte_eth_rx_burst(port, queue, mbufs, RTE_MIN(most, BURST));
	here = NULL;
	for (uint16_t i = 0; i < n; i++) {
		struct rte_mbuf *mbuf = mbufs[i];
		if (unlikely(mbuf->ol_flags & RTE_MBUF_F_RX_VLAN_STRIPPED))
			put_tag_back(mbuf);
		int is_ours = mbuf->pool == memory->pool && mbuf->nb_segs == 1 && rte_mbuf_refcnt_read(mbuf) == 1;
		memory->lent -= is_ours;
		to[i].mbuf = is_ours ? NULL : mbuf;
		to[i].offset = is_ours ? offset_of(memory, mbuf) + mbuf->data_off : 0;
		to[i].length = mbuf->pkt_len;
		to[i].hash = mbuf->ol_flags & RTE_MBUF_F_RX_RSS_HASH ? mbuf->hash.rss : 0;
		/* In a tunnel, the flag is about the inner packet. The port has recognised that there is none if it
		 * tells the transport protocol. */
		uint32_t l4 = mbuf->packet_type & (RTE_PTYPE_L4_MASK | RTE_PTYPE_TUNNEL_MASK);
		to[i].is_right = (mbuf->ol_flags & RTE_MBUF_F_RX_L4_CKSUM_MASK) == RTE_MBUF_F_RX_L4_CKSUM_GOOD
				 && (l4 == RTE_PTYPE_L4_TCP || l4 == RTE_PTYPE_L4_UDP);
	}
	return n;
}

/* Copies the bytes of a packet, at most `size`, to `to`. Returns the number of bytes copied. */
uint32_t tg_read(const struct rte_mbuf *mbuf, uint8_t *to, uint32_t size)
{
	uint32_t done = 0;
	for (; mbuf && done < size; mbuf = mbuf->next) {
		uint32_t n = RTE_MIN(size - done, (uint32_t)mbuf->data_len);
		memcpy(to + done, rte_pktmbuf_mtod(mbuf, const void *), n);
		done += n;
	}
	return done;
}

void tg_free(struct memory *memory, struct rte_mbuf *mbuf)
{
	here = memory;
	rte_pktmbuf_free(mbuf);
	here = NULL;
}

/* Returns the header of a slot, prepared to send a packet of `length` bytes that begins `start` bytes after
 * the start of the slot. Returns NULL if there is no such slot, or if the packet begins before the buffer
 * that drivers see. */
struct rte_mbuf *tg_prepare(struct memory *memory, uint32_t slot, uint32_t start, uint32_t length)
{
	if (slot >= memory->count || start < FRONT)
		return NULL;
	struct rte_mbuf *mbuf = memory->headers[slot];
	mbuf->data_off = start - FRONT;
	mbuf->data_len = length;
	mbuf->pkt_len = length;
	mbuf->nb_segs = 1;
	mbuf->next = NULL;
	mbuf->port = RTE_MBUF_PORT_INVALID;
	mbuf->ol_flags = RTE_MBUF_F_EXTERNAL;
	mbuf->packet_type = 0;
	mbuf->vlan_tci = 0;
	mbuf->tx_offload = 0;
	rte_mbuf_refcnt_set(mbuf, 1);
	return mbuf;
}

/* Returns an mbuf of `pool` with a copy of `bytes`. Returns NULL if the pool has no free mbuf, or the bytes
 * do not fit into its buffer. */
struct rte_mbuf *tg_copy(struct rte_mempool *pool, const uint8_t *bytes, uint32_t length)
{
	struct rte_mbuf *mbuf = rte_pktmbuf_alloc(pool);
	char *to = mbuf ? rte_pktmbuf_append(mbuf, length) : NULL;
	if (to)
		memcpy(to, bytes, length);
	else
		rte_pktmbuf_free(mbuf);
	return to ? mbuf : NULL;
}

/* Sends `n` packets, which are all in slots of the pool or all in DPDK's own buffers. Returns the number of
 * packets that the driver has accepted, which are the first ones. */
uint16_t tg_send(struct memory *memory, uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t n)
{
	int is_ours = n > 0 && mbufs[0]->pool == memory->pool;
	here = memory;
	uint16_t sent = rte_eth_tx_burst(port, queue, mbufs, n);
	here = NULL;
	if (is_ours)
		memory->lent += sent;
	return sent;
}

/* Functions that start and stop DPDK. */

/* The end of the messages that DPDK and its drivers have logged since the last call of tg_said. */
static char said[4096];
static size_t said_length;
static rte_spinlock_t said_lock = RTE_SPINLOCK_INITIALIZER;

static ssize_t say(void *cookie, const char *text, size_t length)
{
	(void)cookie;
	rte_spinlock_lock(&said_lock);
	size_t new = RTE_MIN(length, sizeof(said));
	size_t old = RTE_MIN(said_length, sizeof(said) - new);
	memmove(said, said + said_length - old, old);
	memcpy(said + old, text + length - new, new);
	said_length = old + new;
	rte_spinlock_unlock(&said_lock);
	return length;
}

/* Copies these messages to `to`, at most `size` bytes, and removes all of them. Returns the number of bytes
 * copied. */
uint32_t tg_said(char *to, uint32_t size)
{
	rte_spinlock_lock(&said_lock);
	uint32_t n = RTE_MIN(size, (uint32_t)said_length);
	memcpy(to, said, n);
	said_length = 0;
	rte_spinlock_unlock(&said_lock);
	return n;
}

/* For each port, 1 if its driver has reported that the device was removed. tg_port_remove resets it to 0. */
static uint8_t removed[RTE_MAX_ETHPORTS];

static int on_removal(uint16_t port, enum rte_eth_event_type type, void *argument, void *result)
{
	(void)type;
	(void)argument;
	(void)result;
	if (port < RTE_MAX_ETHPORTS)
		__atomic_store_n(&removed[port], 1, __ATOMIC_RELEASE);
	return 0;
}

/* Starts DPDK with `count` arguments. Returns 0 or a negative error number. With `quiet`, DPDK's messages are
 * kept for tg_said and not written to standard error, and standard output is discarded during the start,
 * because DPDK prints a page of help there after a mistake in the arguments. */
int tg_start(int count, char **arguments, int quiet)
{
	int before = -1, nowhere = -1;
	if (quiet) {
		fflush(stdout);
		before = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
		nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
		FILE *stream = fopencookie(NULL, "w", (cookie_io_functions_t) { .write = say });
		if (stream) {
			setvbuf(stream, NULL, _IONBF, 0);
			rte_openlog_stream(stream);
		}
	}
	if (before >= 0 && nowhere >= 0)
		dup2(nowhere, STDOUT_FILENO);
	int result = rte_eal_init(count, arguments) < 0 ? -rte_errno : 0;
	if (result == 0)
		rte_eth_dev_callback_register(RTE_ETH_ALL, RTE_ETH_EVENT_INTR_RMV, on_removal, NULL);
	if (before >= 0 && nowhere >= 0) {
		fflush(stdout);
		dup2(before, STDOUT_FILENO);
	}
	close(before);
	close(nowhere);
	return result;
}

/* Stops and closes all ports, and ends DPDK. */
void tg_cleanup(void)
{
	uint16_t port;
	RTE_ETH_FOREACH_DEV(port)
	{
		rte_eth_dev_stop(port);
		rte_eth_dev_close(port);
	}
	rte_eal_cleanup();
}

/* The kinds of packets for which Tidegate asks DPDK to select the receive queue by a hash of the headers. */
#define RSS_FLOWS (RTE_ETH_RSS_IP | RTE_ETH_RSS_TCP | RTE_ETH_RSS_UDP)

struct port_info {
	char name[RTE_ETH_NAME_MAX_LEN];
	const char *driver;
	int is_virtual;
	uint16_t most_rx;
	uint16_t most_tx;
	uint16_t most_mtu;
	uint16_t rx_descriptors;
	uint16_t tx_descriptors;
	uint16_t reta_size;
	/* The length in bytes of the key of the hash that selects receive queues. */
	uint16_t key_length;
	/* The kinds of packets (of RSS_FLOWS) for which the port can select a receive queue by a hash. */
	uint64_t rss;
	/* The index of the machine's network interface that the port uses, or 0. */
	uint32_t interface;
	/* The name and the arguments by which tg_probe finds the device; empty if they are too long or there
	 * is no device. */
	char arguments[1024];
};

int tg_port_exists(uint16_t port)
{
	return rte_eth_dev_is_valid_port(port);
}

/* Returns the number of the port with this name, or -1. */
int tg_port_find(const char *name)
{
	uint16_t port;
	return rte_eth_dev_get_port_by_name(name, &port) == 0 ? port : -1;
}

int tg_port_info(uint16_t port, struct port_info *to)
{
	struct rte_eth_dev_info info;
	int result = rte_eth_dev_info_get(port, &info);
	if (result != 0)
		return result;
	memset(to, 0, sizeof(*to));
	rte_eth_dev_get_name_by_port(port, to->name);
	to->driver = info.driver_name;
	const struct rte_bus *bus = info.device ? rte_dev_bus(info.device) : NULL;
	to->is_virtual = bus && strcmp(rte_bus_name(bus), "vdev") == 0;
	to->most_rx = info.max_rx_queues;
	to->most_tx = info.max_tx_queues;
	to->most_mtu = info.max_mtu;
	to->rx_descriptors = info.rx_desc_lim.nb_max;
	to->tx_descriptors = info.tx_desc_lim.nb_max;
	to->reta_size = info.reta_size;
	/* The usual length, if the driver does not report one. */
	to->key_length = info.hash_key_size ? info.hash_key_size : 40;
	to->rss = info.flow_type_rss_offloads & RSS_FLOWS;
	to->interface = info.if_index;
	const struct rte_devargs *given = info.device ? rte_dev_devargs(info.device) : NULL;
	const char *more = given && given->args && given->args[0] ? given->args : NULL;
	int n = info.device ? snprintf(to->arguments, sizeof(to->arguments), "%s%s%s", rte_dev_name(info.device),
				       more ? "," : "", more ? more : "")
			    : 0;
	/* A text that was cut off could describe another device. */
	if (n < 0 || (size_t)n >= sizeof(to->arguments))
		to->arguments[0] = 0;
	return 0;
}

/* Maps memory that is not DPDK's for the device of a port. Returns 0 or a negative error number. Ports of
 * virtual devices need no mapping, because their drivers are software in this process. */
int tg_port_map(uint16_t port, void *base, size_t length)
{
	struct rte_eth_dev_info info;
	if (rte_eal_iova_mode() != RTE_IOVA_VA)
		return -ENOTSUP;
	int result = rte_eth_dev_info_get(port, &info);
	if (result != 0)
		return result;
	if (rte_extmem_register(base, length, NULL, 0, 4096) != 0 && rte_errno != EEXIST)
		return -rte_errno;
	if (rte_dev_dma_map(info.device, base, (uint64_t)(uintptr_t)base, length) != 0)
		return -rte_errno;
	return 0;
}

/* Configures a port with `rx` receive queues and `tx` send queues. With `spreads`, a hash of the headers
 * selects the receive queue. Interfaces in hardware verify transport checksums, if they can. Returns 0 or a
 * negative error number. */
int tg_port_configure(uint16_t port, uint16_t rx, uint16_t tx, uint32_t mtu, int spreads)
{
	struct rte_eth_dev_info info;
	int result = rte_eth_dev_info_get(port, &info);
	if (result != 0)
		return result;
	struct rte_eth_conf conf = { 0 };
	/* With 0, DPDK sets an MTU of 1500 bytes, or the largest MTU of the device if that is less. */
	conf.rxmode.mtu = mtu ? RTE_MIN(mtu, info.max_mtu ? (uint32_t)info.max_mtu : UINT16_MAX) : 0;
	uint64_t flows = info.flow_type_rss_offloads & RSS_FLOWS;
	if (spreads && rx > 1 && flows) {
		conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
		conf.rx_adv_conf.rss_conf.rss_hf = flows;
	}
	/* Software drivers would read the payload for it. A virtio device would hand over packets whose
	 * checksums are incomplete. */
	const struct rte_bus *bus = info.device ? rte_dev_bus(info.device) : NULL;
	int is_hardware = bus && strcmp(rte_bus_name(bus), "vdev") != 0
			  && strncmp(info.driver_name, "net_virtio", strlen("net_virtio")) != 0;
	if (is_hardware)
		conf.rxmode.offloads =
			info.rx_offload_capa & (RTE_ETH_RX_OFFLOAD_TCP_CKSUM | RTE_ETH_RX_OFFLOAD_UDP_CKSUM);
	conf.intr_conf.rmv = info.dev_flags && (*info.dev_flags & RTE_ETH_DEV_INTR_RMV);
	return rte_eth_dev_configure(port, rx, tx, &conf);
}

/* Replaces each number of descriptors with the nearest number that the port supports. */
int tg_port_descriptors(uint16_t port, uint16_t *rx, uint16_t *tx)
{
	return rte_eth_dev_adjust_nb_rx_tx_desc(port, rx, tx);
}

int tg_rx_setup(struct memory *memory, struct rte_mempool *own, uint16_t port, uint16_t queue, uint16_t descriptors)
{
	here = memory;
	int result = rte_eth_rx_queue_setup(port, queue, descriptors, SOCKET_ID_ANY, NULL, own ? own : memory->pool);
	here = NULL;
	return result;
}

int tg_tx_setup(uint16_t port, uint16_t queue, uint16_t descriptors)
{
	return rte_eth_tx_queue_setup(port, queue, descriptors, SOCKET_ID_ANY, NULL);
}

int tg_port_start(struct memory *memory, uint16_t port)
{
	here = memory;
	int result = rte_eth_dev_start(port);
	here = NULL;
	return result;
}

void tg_port_stop(struct memory *memory, uint16_t port)
{
	here = memory;
	rte_eth_dev_stop(port);
	here = NULL;
}

int tg_port_removed(uint16_t port)
{
	return !rte_eth_dev_is_valid_port(port)
	       || (port < RTE_MAX_ETHPORTS && __atomic_load_n(&removed[port], __ATOMIC_ACQUIRE));
}

/* Stops a port and removes its device from DPDK. If the device cannot be removed, closes the port. */
void tg_port_remove(struct memory *memory, uint16_t port)
{
	struct rte_eth_dev_info info;
	int there = rte_eth_dev_info_get(port, &info) == 0;
	here = memory;
	if (there) {
		rte_eth_dev_stop(port);
		if (rte_dev_remove(info.device) != 0 && rte_eth_dev_is_valid_port(port))
			rte_eth_dev_close(port);
	}
	here = NULL;
	if (port < RTE_MAX_ETHPORTS)
		__atomic_store_n(&removed[port], 0, __ATOMIC_RELEASE);
}

/* Makes DPDK find the device that these arguments describe and create its ports. */
int tg_probe(const char *arguments)
{
	return rte_dev_probe(arguments);
}

int tg_port_promiscuous(uint16_t port, int on)
{
	return on ? rte_eth_promiscuous_enable(port) : rte_eth_promiscuous_disable(port);
}

/* Returns the MTU of a port in bytes, or a negative error number. */
int tg_port_mtu(uint16_t port)
{
	uint16_t mtu;
	int result = rte_eth_dev_get_mtu(port, &mtu);
	return result == 0 ? mtu : result;
}

int tg_port_set_mtu(uint16_t port, uint16_t mtu)
{
	return rte_eth_dev_set_mtu(port, mtu);
}

int tg_port_mac(uint16_t port, uint8_t *to)
{
	struct rte_ether_addr address;
	int result = rte_eth_macaddr_get(port, &address);
	memcpy(to, address.addr_bytes, sizeof(address.addr_bytes));
	return result;
}

/* Changes the Ethernet addresses of a port. With `how` 0, sets the main address; with 1, adds a further
 * address; with another number, removes a further address. */
int tg_port_set_mac(uint16_t port, const uint8_t *bytes, int how)
{
	struct rte_ether_addr address;
	memcpy(address.addr_bytes, bytes, sizeof(address.addr_bytes));
	switch (how) {
	case 0:
		return rte_eth_dev_default_mac_addr_set(port, &address);
	case 1:
		return rte_eth_dev_mac_addr_add(port, &address, 0);
	default:
		return rte_eth_dev_mac_addr_remove(port, &address);
	}
}

struct port_link {
	uint32_t speed;
	uint8_t is_up;
	uint8_t is_full_duplex;
	uint8_t is_negotiated;
};

int tg_port_link(uint16_t port, struct port_link *to)
{
	struct rte_eth_link link;
	int result = rte_eth_link_get_nowait(port, &link);
	if (result != 0)
		return result;
	to->speed = link.link_speed;
	to->is_up = link.link_status == RTE_ETH_LINK_UP;
	to->is_full_duplex = link.link_duplex == RTE_ETH_LINK_FULL_DUPLEX;
	to->is_negotiated = link.link_autoneg;
	return 0;
}

struct port_counts {
	uint64_t in_packets, out_packets, in_bytes, out_bytes, missed, in_errors, out_errors, no_buffers;
	uint64_t queue_packets[RTE_ETHDEV_QUEUE_STAT_CNTRS];
	uint64_t queue_bytes[RTE_ETHDEV_QUEUE_STAT_CNTRS];
};

int tg_port_counts(uint16_t port, struct port_counts *to)
{
	struct rte_eth_stats stats;
	int result = rte_eth_stats_get(port, &stats);
	if (result != 0)
		return result;
	to->in_packets = stats.ipackets;
	to->out_packets = stats.opackets;
	to->in_bytes = stats.ibytes;
	to->out_bytes = stats.obytes;
	to->missed = stats.imissed;
	to->in_errors = stats.ierrors;
	to->out_errors = stats.oerrors;
	to->no_buffers = stats.rx_nombuf;
	memcpy(to->queue_packets, stats.q_ipackets, sizeof(to->queue_packets));
	memcpy(to->queue_bytes, stats.q_ibytes, sizeof(to->queue_bytes));
	return 0;
}

/* Reads the name (at most 64 bytes) and the value of the port's extended counter with this number. Returns
 * the number of extended counters, or a negative error number. Writes nothing if there is no such counter. */
int tg_port_extended(uint16_t port, uint32_t number, char *name, uint64_t *value)
{
	int count = rte_eth_xstats_get_names(port, NULL, 0);
	if (count <= 0 || number >= (uint32_t)count)
		return count;
	struct rte_eth_xstat_name *names = calloc(count, sizeof(*names));
	uint64_t *values = calloc(count, sizeof(*values));
	if (names && values && rte_eth_xstats_get_names(port, names, count) == count
	    && rte_eth_xstats_get_by_id(port, NULL, values, count) == count) {
		memcpy(name, names[number].name, RTE_ETH_XSTATS_NAME_SIZE);
		*value = values[number];
	} else {
		count = -EIO;
	}
	free(names);
	free(values);
	return count;
}

int tg_port_queue_count(uint16_t port, uint16_t queue)
{
	return rte_eth_rx_queue_count(port, queue);
}

/* Returns the receive queue in the entry with this number of the table from hashes to queues, or a negative
 * error number. `size` is the number of entries in the table. */
int tg_port_reta(uint16_t port, uint16_t number, uint16_t size)
{
	struct rte_eth_rss_reta_entry64 entries[RTE_ETH_RSS_RETA_SIZE_512 / RTE_ETH_RETA_GROUP_SIZE] = { 0 };
	if (number >= size || size > RTE_ETH_RSS_RETA_SIZE_512)
		return -EINVAL;
	entries[number / RTE_ETH_RETA_GROUP_SIZE].mask = 1ULL << number % RTE_ETH_RETA_GROUP_SIZE;
	int result = rte_eth_dev_rss_reta_query(port, entries, size);
	if (result != 0)
		return result;
	return entries[number / RTE_ETH_RETA_GROUP_SIZE].reta[number % RTE_ETH_RETA_GROUP_SIZE];
}

/* Fills the table from hashes to queues, which has `size` entries, with the first `queues` receive queues in
 * rotation. */
int tg_port_set_reta(uint16_t port, uint16_t queues, uint16_t size)
{
	struct rte_eth_rss_reta_entry64 entries[RTE_ETH_RSS_RETA_SIZE_512 / RTE_ETH_RETA_GROUP_SIZE] = { 0 };
	if (queues == 0 || size == 0 || size > RTE_ETH_RSS_RETA_SIZE_512)
		return -EINVAL;
	for (uint16_t i = 0; i < size; i++) {
		entries[i / RTE_ETH_RETA_GROUP_SIZE].mask |= 1ULL << i % RTE_ETH_RETA_GROUP_SIZE;
		entries[i / RTE_ETH_RETA_GROUP_SIZE].reta[i % RTE_ETH_RETA_GROUP_SIZE] = i % queues;
	}
	return rte_eth_dev_rss_reta_update(port, entries, size);
}

/* Reads the key of the hash that selects receive queues. `key` has room for 255 bytes, because a driver may
 * write more than `length` bytes. */
int tg_port_key(uint16_t port, uint8_t *key, uint8_t length)
{
	struct rte_eth_rss_conf conf = { .rss_key = key, .rss_key_len = length };
	return rte_eth_dev_rss_hash_conf_get(port, &conf);
}

/* Sets the key of the hash that selects receive queues. The header fields that are hashed stay as they are.
 */
int tg_port_set_key(uint16_t port, const uint8_t *key, uint8_t length)
{
	/* The query returns the hashed header fields, which the update needs, and the old key, which is not
	 * used. The update gets a copy of the new key, because the structure's key is not const. */
	uint8_t old[UINT8_MAX], own[UINT8_MAX];
	struct rte_eth_rss_conf conf = { .rss_key = old, .rss_key_len = length };
	int result = rte_eth_dev_rss_hash_conf_get(port, &conf);
	if (result != 0)
		return result;
	memcpy(own, key, length);
	conf.rss_key = own;
	conf.rss_key_len = length;
	return rte_eth_dev_rss_hash_update(port, &conf);
}

const char *tg_reason(int error)
{
	return rte_strerror(error < 0 ? -error : error);
}
