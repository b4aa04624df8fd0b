/* Sends or receives UDP datagrams at a rate and reports on them as Iperf 2 does, in one of
 * the flavours of mehani-2011:
 *
 *   traffic send ADDRESS PORT BITS_PER_S SECONDS FLAVOUR THREADS CSV [--oml-...]
 *   traffic receive PORT FLAVOUR THREADS CSV [--oml-...]
 *
 * FLAVOUR nooml-c and oml-c write an aggregate every half a second as CSV; oml-o injects the
 * aggregates; oml-O injects each datagram. Built with PLAIN it has no measurement library at
 * all, and only nooml-c. THREADS yes: another thread reports; no: the loop that sends or
 * receives. Prints JSON. */
#include <arpa/inet.h>
#include <errno.h>
#include <math.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#ifndef PLAIN
#include <oml2/omlc.h>
#endif

#define SIZE 1470           /* bytes of a datagram's payload */
#define PERIOD 500000000LL  /* ns of an aggregate */
#define RING 65536          /* reports between the threads */
#define LAST UINT32_MAX     /* number of the datagrams that end a test */

enum flavour { NOOML_C, OML_C, OML_AGGREGATE, OML_PACKETS };

struct head {
	uint32_t id, seconds, nanos;
} __attribute__((packed));

/* A datagram sent or received; times are ns since 1970, received is 0 at the sender. */
struct report {
	uint32_t id, size;
	int64_t sent, received;
};

static enum flavour flavour;
static int is_sender;
static FILE *csv;

static struct report ring[RING];
static _Atomic uint64_t head_at, tail_at;
static _Atomic int finished;

/* The aggregate of the current period. */
static int64_t begun, ends;
static uint64_t bytes, packets, expected, highest;
static double transit_before, jitter;
static int has_transit;
static uint64_t reports;

#ifndef PLAIN
static OmlMP *transfer, *losses, *jitters, *each;

static int declare(void)
{
	static OmlMPDef of_transfer[] = {{"begin_interval", OML_DOUBLE_VALUE}, {"end_interval", OML_DOUBLE_VALUE}, {"size", OML_UINT64_VALUE}, {NULL, (OmlValueT)0}};
	static OmlMPDef of_losses[] = {{"begin_interval", OML_DOUBLE_VALUE}, {"end_interval", OML_DOUBLE_VALUE}, {"total_datagrams", OML_UINT64_VALUE}, {"lost_datagrams", OML_INT64_VALUE}, {NULL, (OmlValueT)0}};
	static OmlMPDef of_jitter[] = {{"begin_interval", OML_DOUBLE_VALUE}, {"end_interval", OML_DOUBLE_VALUE}, {"jitter", OML_DOUBLE_VALUE}, {NULL, (OmlValueT)0}};
	static OmlMPDef of_packets[] = {{"packet_id", OML_UINT64_VALUE}, {"packet_size", OML_UINT32_VALUE}, {"sent_us", OML_INT64_VALUE}, {"received_us", OML_INT64_VALUE}, {NULL, (OmlValueT)0}};

	transfer = omlc_add_mp("transfer", of_transfer);
	losses = omlc_add_mp("losses", of_losses);
	jitters = omlc_add_mp("jitter", of_jitter);
	each = omlc_add_mp("packets", of_packets);
	return transfer && losses && jitters && each ? omlc_start() : -1;
}

static void inject(const struct report *r)
{
	OmlValueU v[4];

	omlc_zero_array(v, 4);
	omlc_set_uint64(v[0], r->id);
	omlc_set_uint32(v[1], r->size);
	omlc_set_int64(v[2], r->sent / 1000);
	omlc_set_int64(v[3], r->received / 1000);
	omlc_inject(each, v);
}

static void inject_aggregate(double from, double to)
{
	OmlValueU v[4];

	omlc_zero_array(v, 4);
	omlc_set_double(v[0], from);
	omlc_set_double(v[1], to);
	omlc_set_uint64(v[2], bytes);
	omlc_inject(transfer, v);
	if (is_sender)
		return;
	omlc_set_uint64(v[2], expected);
	omlc_set_int64(v[3], (int64_t)(expected - packets));
	omlc_inject(losses, v);
	omlc_set_double(v[2], jitter);
	omlc_inject(jitters, v);
}
#else
static void inject(const struct report *r)
{
	(void)r;
}

static void inject_aggregate(double from, double to)
{
	(void)from, (void)to;
}
#endif

static int64_t now(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void end_period(void)
{
	double from = (double)(ends - PERIOD - begun) / 1e9, to = (double)(ends - begun) / 1e9;

	if (flavour == OML_AGGREGATE)
		inject_aggregate(from, to);
	else
		fprintf(csv, "%.3f,%.3f,%llu,%llu,%lld,%.6f\n", from, to, (unsigned long long)bytes, (unsigned long long)expected,
			(long long)(expected - packets), jitter);
	bytes = packets = expected = 0;
	ends += PERIOD;
}

/* What a flavour does with a report. */
static void handle(const struct report *r)
{
	int64_t at = is_sender ? r->sent : r->received;

	reports++;
	if (flavour == OML_PACKETS) {
		inject(r);
		return;
	}
	if (begun == 0) {
		begun = r->sent;
		ends = begun + PERIOD;
	}
	while (at >= ends)
		end_period();
	bytes += r->size;
	packets++;
	if (r->id + 1ull > highest) {
		expected += r->id + 1ull - highest;
		highest = r->id + 1ull;
	}
	if (!is_sender) { /* equation 1 */
		double transit = (double)(r->received - r->sent) / 1e6;

		if (has_transit)
			jitter += (fabs(transit - transit_before) - jitter) / 16;
		transit_before = transit;
		has_transit = 1;
	}
}

static void *report_all(void *unused)
{
	const struct timespec pause = {.tv_nsec = 1000000};

	(void)unused;
	for (;;) {
		int over = atomic_load(&finished);
		uint64_t head = atomic_load_explicit(&head_at, memory_order_acquire), tail = atomic_load(&tail_at);

		for (; tail < head; tail++) {
			handle(&ring[tail % RING]);
			atomic_store_explicit(&tail_at, tail + 1, memory_order_release);
		}
		if (over)
			return NULL;
		nanosleep(&pause, NULL);
	}
}

static pthread_t thread;
static int threaded;

static void report(const struct report *r)
{
	uint64_t head;

	if (!threaded) {
		handle(r);
		return;
	}
	head = atomic_load(&head_at);
	while (head - atomic_load_explicit(&tail_at, memory_order_acquire) >= RING)
		sched_yield(); /* as Iperf 2: the test waits for its reports */
	ring[head % RING] = *r;
	atomic_store_explicit(&head_at, head + 1, memory_order_release);
}

static int fail(const char *what)
{
	fprintf(stderr, "traffic: %s: %s\n", what, strerror(errno));
	return EXIT_FAILURE;
}

/* Sends at the rate for that long; the number sent, or -1. */
static int64_t send_all(int fd, double rate, double seconds, int64_t *start)
{
	char data[SIZE] = {0};
	double gap = SIZE * 8e9 / rate;
	int64_t from = now(CLOCK_MONOTONIC), n = 0;

	*start = now(CLOCK_REALTIME);
	for (;; n++) {
		int64_t due = from + (int64_t)((double)n * gap), at;
		struct timespec until = {.tv_sec = due / 1000000000, .tv_nsec = due % 1000000000};
		struct report r = {.id = (uint32_t)n, .size = SIZE};
		struct head *head = (struct head *)data;

		if ((double)(due - from) >= seconds * 1e9)
			break;
		if (now(CLOCK_MONOTONIC) < due)
			clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
		if ((double)(now(CLOCK_MONOTONIC) - from) >= seconds * 1e9)
			break; /* the time is over, whatever the rate was */
		at = now(CLOCK_REALTIME);
		*head = (struct head){htonl((uint32_t)n), htonl((uint32_t)(at / 1000000000)), htonl((uint32_t)(at % 1000000000))};
		if (send(fd, data, sizeof data, 0) < 0 && errno != ENOBUFS)
			return -1;
		r.sent = at;
		report(&r);
	}
	*(uint32_t *)data = LAST;
	for (int i = 0; i < 10; i++) {
		send(fd, data, sizeof(struct head), 0);
		usleep(2000);
	}
	return n;
}

static int64_t receive_all(int fd, int64_t *start)
{
	char data[65536];
	int64_t n = 0;

	for (;;) {
		ssize_t size = recv(fd, data, sizeof data, 0);
		const struct head *head = (const struct head *)data;
		struct report r;

		if (size < 0 && errno == EINTR)
			continue;
		if (size < (ssize_t)sizeof *head)
			return n > 0 && (errno == EAGAIN || errno == EWOULDBLOCK) ? n : -1;
		if (head->id == LAST)
			return n;
		r = (struct report){.id = ntohl(head->id), .size = (uint32_t)size, .received = now(CLOCK_REALTIME)};
		r.sent = (int64_t)ntohl(head->seconds) * 1000000000 + ntohl(head->nanos);
		if (n++ == 0)
			*start = r.sent;
		report(&r);
	}
}

static int open_socket(const char *address, int port)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
	int fd = socket(AF_INET, SOCK_DGRAM, 0), off = IP_PMTUDISC_DONT, room = 8 << 20;

	if (fd < 0)
		return -1;
	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
	/* So that the kernel numbers the packets in their IP headers. */
	setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &off, sizeof off);
	if (address) {
		inet_pton(AF_INET, address, &to.sin_addr);
		return connect(fd, (struct sockaddr *)&to, sizeof to) < 0 ? -1 : fd;
	}
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &(struct timeval){.tv_sec = 20}, sizeof(struct timeval));
	return bind(fd, (struct sockaddr *)&to, sizeof to) < 0 ? -1 : fd;
}

static int flavour_of(const char *name)
{
	static const char *const names[] = {"nooml-c", "oml-c", "oml-o", "oml-O"};

	for (int i = 0; i < 4; i++)
		if (strcmp(name, names[i]) == 0)
			return i;
	return -1;
}

int main(int argc, const char **argv)
{
	unsigned long long dropped = 0;
	int found, fd, failed = 0;
	int64_t n, start = 0, from;
	struct rusage used;
	double seconds;

#ifndef PLAIN
	if (omlc_init("iperf", &argc, argv, NULL) < 0 || declare() < 0)
		return EXIT_FAILURE;
#endif
	is_sender = argc > 1 && strcmp(argv[1], "send") == 0;
	if (argc != (is_sender ? 9 : 6))
		return EXIT_FAILURE;
	argv += argc - 3;
	found = flavour_of(argv[0]);
	if (found < 0)
		return EXIT_FAILURE;
	flavour = (enum flavour)found;
	threaded = strcmp(argv[1], "yes") == 0;
	csv = fopen(argv[2], "w");
	argv -= argc - 3;
	fd = is_sender ? open_socket(argv[2], atoi(argv[3])) : open_socket(NULL, atoi(argv[2]));
	if (fd < 0 || !csv)
		return fail("open");
	if (threaded && pthread_create(&thread, NULL, report_all, NULL) != 0)
		return fail("create thread");
	fprintf(stderr, "ready\n");
	from = now(CLOCK_MONOTONIC);
	n = is_sender ? send_all(fd, atof(argv[4]), atof(argv[5]), &start) : receive_all(fd, &start);
	seconds = (double)(now(CLOCK_MONOTONIC) - from) / 1e9;
	if (n < 0)
		return fail(is_sender ? "send" : "receive");
	atomic_store(&finished, 1);
	if (threaded)
		pthread_join(thread, NULL);
	fclose(csv);
#ifndef PLAIN
	dropped = pillion_dropped(each) + pillion_dropped(transfer);
	failed = omlc_close();
#endif
	getrusage(RUSAGE_SELF, &used);
	printf("{\"packets\": %lld, \"reports\": %llu, \"dropped\": %llu, \"start_ns\": %lld, \"seconds\": %.6f, \"cpu_s\": %.6f, "
	       "\"resident_kb\": %ld, \"close\": %d}\n",
	       (long long)n, (unsigned long long)reports, dropped, (long long)start, seconds,
	       (double)used.ru_utime.tv_sec + (double)used.ru_stime.tv_sec + ((double)used.ru_utime.tv_usec + (double)used.ru_stime.tv_usec) / 1e6,
	       used.ru_maxrss, failed);
	return EXIT_SUCCESS;
}
