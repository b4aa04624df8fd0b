/* Injects samples of 4 fields at a rate and times each omlc_inject.
 *
 *   pace RATE SECONDS --oml-...
 *
 * Prints JSON. Two readings of the clock are part of each time; what they cost is
 * measured first and stands beside. Beside the worst stands the worst of as many pairs
 * of readings with nothing between: what the machine alone takes away. What the library
 * does in threads of its own is processor time per sample. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

#include <oml2/omlc.h>

#ifdef PEER /* OML's library has no counters */
#define pillion_dropped(mp) 0
#endif

#define MOST 1000000 /* ns: durations above are counted as one */

static uint32_t counts[MOST + 1];

static int64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* beside is the processor time of all threads but the caller's, s. */
static double beside(void)
{
	struct rusage all, own;

	getrusage(RUSAGE_SELF, &all);
	getrusage(RUSAGE_THREAD, &own);
	return (double)(all.ru_utime.tv_sec + all.ru_stime.tv_sec - own.ru_utime.tv_sec - own.ru_stime.tv_sec) +
	       (double)(all.ru_utime.tv_usec + all.ru_stime.tv_usec - own.ru_utime.tv_usec - own.ru_stime.tv_usec) / 1e6;
}

static int64_t clock_cost(void)
{
	int64_t least = INT64_MAX;

	for (int i = 0; i < 100000; i++) {
		int64_t begun = now(), took = now() - begun;

		least = took < least ? took : least;
	}
	return least;
}

/* quantile is interpolated within its nanosecond: otherwise most runs would have equal ones. */
static double quantile(int64_t total, double part)
{
	double seen = 0, wanted = (double)total * part;

	for (int64_t i = 0; i <= MOST; i++) {
		if (counts[i] > 0 && seen + counts[i] >= wanted)
			return (double)i - 0.5 + (wanted - seen) / counts[i];
		seen += counts[i];
	}
	return MOST;
}

int main(int argc, const char **argv)
{
	static OmlMPDef fields[] = {{"n", OML_INT64_VALUE}, {"x", OML_DOUBLE_VALUE}, {"s", OML_STRING_VALUE}, {"u", OML_UINT32_VALUE},
				    {NULL, (OmlValueT)0}};
	OmlValueU v[4];
	OmlMP *mp;
	int64_t total, begun, ended, worst = 0, worst_idle = 0;
	double rate, seconds, others;
	int failed;

	if (omlc_init("pace", &argc, argv, NULL) < 0 || argc != 3 || !(mp = omlc_add_mp("load", fields)) || omlc_start() < 0)
		return EXIT_FAILURE;
	rate = strtod(argv[1], NULL);
	seconds = strtod(argv[2], NULL);
	total = (int64_t)(rate * seconds);
	omlc_zero_array(v, 4);
	omlc_set_const_string(v[2], "twelve bytes");
	begun = now();
	for (int64_t i = 0; i < total; i++) {
		int64_t due = begun + (int64_t)((double)i / rate * 1e9), from, took;

		while ((from = now()) < due)
			;
		omlc_set_int64(v[0], i);
		omlc_set_double(v[1], (double)i / 1000);
		omlc_set_uint32(v[3], (uint32_t)i);
		from = now();
		took = now() - from;
		worst_idle = took > worst_idle ? took : worst_idle;
		from = now();
		omlc_inject(mp, v);
		took = now() - from;
		counts[took < MOST ? took : MOST]++;
		worst = took > worst ? took : worst;
	}
	ended = now();
	others = beside();
	failed = omlc_close();
	printf("{\"samples\": %lld, \"dropped\": %llu, \"seconds\": %.3f, \"clock_ns\": %lld, \"median_ns\": %.2f, \"p99_ns\": %.2f, "
	       "\"p999_ns\": %.2f, \"worst_ns\": %lld, \"worst_idle_ns\": %lld, \"beside_ns\": %.1f, \"close_seconds\": %.3f, \"close\": %d}\n",
	       (long long)total, (unsigned long long)pillion_dropped(mp), (double)(ended - begun) / 1e9, (long long)clock_cost(),
	       quantile(total, 0.5), quantile(total, 0.99), quantile(total, 0.999), (long long)worst,
	       (long long)worst_idle, others * 1e9 / (double)total, (double)(now() - ended) / 1e9, failed);
	return EXIT_SUCCESS;
}
