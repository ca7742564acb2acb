/* What the peers share: time, errors, a start of DPDK without huge pages and devices. */
#ifndef PEER_H
#define PEER_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <rte_eal.h>
#include <rte_log.h>
#include <rte_malloc.h>

static inline void die(const char *what)
{
	fprintf(stderr, "%s%s%s\n", what, errno ? ": " : "", errno ? strerror(errno) : "");
	exit(1);
}

static inline FILE *open_or_die(const char *name)
{
	FILE *file = fopen(name, "r");
	if (!file)
		die(name);
	return file;
}

static inline double now(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec + time.tv_nsec * 1e-9;
}

/* A result that the compiler may not leave out. */
static inline void keep(uint64_t value)
{
	__asm__ volatile("" : : "r"(value));
}

static inline int ascending(const void *left, const void *right)
{
	double l = *(const double *)left, r = *(const double *)right;
	return (l > r) - (l < r);
}

static inline double median(double *values, int count)
{
	qsort(values, count, sizeof *values, ascending);
	return values[count / 2];
}

/* An array of so many elements, with room for one more. */
static inline void *room(void *array, size_t size, size_t count)
{
	/* Twice as large whenever it is full: at no element, and at each power of two. */
	if ((count & (count - 1)) == 0 && !(array = realloc(array, size * (count ? 2 * count : 1))))
		die("memory");
	return array;
}

/* Memory of DPDK's heap that is in use. */
static inline double memory_mib(void)
{
	struct rte_malloc_socket_stats stats;
	return rte_malloc_get_socket_stats(0, &stats) ? 0 : stats.heap_allocsz_bytes / 1048576.0;
}

static inline void start_eal(void)
{
	char *arguments[] = { "peer", "--no-huge", "--no-pci", "--no-telemetry", "--no-shconf", "-m", "2048",
			      "--log-level=3", "-l", "0", NULL };
	if (rte_eal_init(10, arguments) < 0)
		die("rte_eal_init");
	errno = 0;
}
#endif
