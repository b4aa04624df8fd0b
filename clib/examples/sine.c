/* An application that measures: a wave that it makes itself.
 *
 *   sine [-n TURNS] [-r PLACES_PER_SECOND] [-l LABEL] --oml-... */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define OML_FROM_MAIN
#include "sine_oml.h"

#define PLACES 32 /* of one turn */

static int64_t nanoseconds(const struct timespec *t)
{
	return (int64_t)t->tv_sec * 1000000000 + t->tv_nsec;
}

/* Waits until a time, and says how much later it is. */
static int64_t wait_until(int64_t when)
{
	struct timespec t = {.tv_sec = (time_t)(when / 1000000000), .tv_nsec = (long)(when % 1000000000)};

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
		;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return nanoseconds(&t) - when;
}

static void measure(long turns, double rate, const char *label)
{
	struct timespec t;
	int64_t begun, lag = 0;

	clock_gettime(CLOCK_MONOTONIC, &t);
	begun = nanoseconds(&t);
	for (long turn = 0; turn < turns; turn++) {
		for (int place = 0; place < PLACES; place++) {
			double angle = 2 * M_PI * place / PLACES;

			oml_inject_wave(g_oml_mps_sine->wave, label, angle, sin(angle));
			lag = wait_until(begun + (int64_t)((double)(turn * PLACES + place + 1) / rate * 1e9));
		}
		oml_inject_turn(g_oml_mps_sine->turn, (uint32_t)turn + 1, lag);
	}
}

int main(int argc, const char **argv)
{
	long turns = 10;
	double rate = 100;
	const char *label = "sine";
	OmlValueU unit;
	int option;

	/* First, since it takes its own options out of argv. The program works without
	 * measurement, too. */
	if (omlc_init("sine", &argc, argv, NULL) < 0)
		fprintf(stderr, "sine: nothing is measured; see --oml-help\n");
	while ((option = getopt(argc, (char *const *)argv, "n:r:l:")) != -1) {
		switch (option) {
		case 'n': turns = strtol(optarg, NULL, 10); break;
		case 'r': rate = strtod(optarg, NULL); break;
		case 'l': label = optarg; break;
		default: return EXIT_FAILURE;
		}
	}
	if (!(turns > 0 && rate > 0)) {
		fprintf(stderr, "sine: -n and -r need a number above 0\n");
		return EXIT_FAILURE;
	}
	oml_register_mps();
	omlc_start();
	omlc_zero(unit);
	omlc_set_const_string(unit, "rad");
	omlc_inject_metadata(g_oml_mps_sine->wave, "unit", &unit, OML_STRING_VALUE, "angle");
	measure(turns, rate, label);
	if (pillion_dropped(g_oml_mps_sine->wave) > 0)
		fprintf(stderr, "sine: %llu places were not measured\n", (unsigned long long)pillion_dropped(g_oml_mps_sine->wave));
	omlc_close();
	return EXIT_SUCCESS;
}
