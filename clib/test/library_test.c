/* The interface: misuse, threads, forks, and collectors that do not do their part.
 * There is one library in a process, so each test has its own. */
#include <netinet/in.h>
#include <pthread.h>
#include <stdarg.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <fcntl.h>
#include <oml2/omlc.h>

#include "check.h"

#define THREADS 8
#ifndef EACH
#define EACH 5000
#endif

static char folder[] = "/tmp/pillion-test-XXXXXX";
static char said[8192];
static pthread_mutex_t said_lock = PTHREAD_MUTEX_INITIALIZER;

static void take_message(int level, const char *format, ...)
{
	va_list values;
	size_t at;

	(void)level;
	pthread_mutex_lock(&said_lock);
	at = strlen(said);
	va_start(values, format);
	vsnprintf(said + at, sizeof said - at, format, values);
	va_end(values);
	pthread_mutex_unlock(&said_lock);
}

/* Runs a test in a process of its own. */
static void apart(void (*test)(void))
{
	int status = -1;
	pid_t child;

	fflush(stdout);
	child = fork();
	if (child == 0) {
		check_failures = 0;
		test();
		exit(check_failures ? EXIT_FAILURE : EXIT_SUCCESS);
	}
	waitpid(child, &status, 0);
	CHECK_SAYING(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %x", (unsigned)status);
}

#define APART(test)            \
	static void test##_(void); \
	static void test(void)     \
	{                          \
		apart(test##_);        \
	}                          \
	static void test##_(void)

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int start_with(const char *const *options)
{
	const char *line[16] = {"app", "--oml-id", "me", "--oml-domain", "d"};
	int count = 5;

	for (; *options; options++)
		line[count++] = *options;
	return omlc_init("app", &count, line, take_message);
}

#define INIT(...) start_with((const char *const[]){__VA_ARGS__, NULL})

static const char *path_of(const char *name)
{
	static char path[128];

	snprintf(path, sizeof path, "%s/%s", folder, name);
	return path;
}

static void write_file(const char *name, const char *text)
{
	FILE *file = fopen(path_of(name), "w");

	fputs(text, file);
	fclose(file);
}

/* The file's text, until the next call; empty if there is no file yet. */
static char *read_file(const char *name)
{
	static char *text;
	FILE *file = fopen(path_of(name), "r");
	long size;

	free(text);
	if (!file)
		return text = strdup("");
	fseek(file, 0, SEEK_END);
	size = ftell(file);
	rewind(file);
	text = calloc(1, (size_t)size + 1);
	CHECK(fread(text, 1, (size_t)size, file) == (size_t)size);
	fclose(file);
	return text;
}

static OmlMPDef numbers[] = {{"thread", OML_INT32_VALUE}, {"n", OML_INT64_VALUE}, {NULL, (OmlValueT)0}};

static int inject(OmlMP *mp, int thread, int64_t n)
{
	OmlValueU v[2];

	omlc_zero_array(v, 2);
	omlc_set_int32(v[0], thread);
	omlc_set_int64(v[1], n);
	return omlc_inject(mp, v);
}

APART(misuse)
{
	OmlMPDef bad_name[] = {{"a b", OML_INT32_VALUE}, {NULL, (OmlValueT)0}};
	OmlMPDef bad_type[] = {{"a", OML_PADDING1_VALUE}, {NULL, (OmlValueT)0}};
	OmlMPDef twice[] = {{"a", OML_INT32_VALUE}, {"a", OML_INT32_VALUE}, {NULL, (OmlValueT)0}};
	OmlValueU v;
	OmlMP *mp;

	o_set_log_level(-3);
	omlc_zero(v);
	CHECK(omlc_start() == -1);
	CHECK(omlc_close() == -1);
	CHECK(omlc_add_mp("a", numbers) == NULL);
	CHECK(omlc_inject(NULL, &v) == -1);
	CHECK(omlc_inject_metadata(NULL, "k", &v, OML_INT32_VALUE, NULL) == -1);
	CHECK(pillion_dropped(NULL) == 0 && pillion_injected(NULL) == 0);
	CHECK(INIT("--oml-collect", "file:/dev/null") == 0);
	CHECK(INIT("--oml-collect", "file:/dev/null") == -1);
	CHECK(omlc_add_mp("1a", numbers) == NULL);
	CHECK(omlc_add_mp(NULL, numbers) == NULL);
	CHECK(omlc_add_mp("a", NULL) == NULL);
	CHECK(omlc_add_mp("a", bad_name) == NULL);
	CHECK(omlc_add_mp("a", bad_type) == NULL);
	CHECK(omlc_add_mp("a", twice) == NULL);
	CHECK((mp = omlc_add_mp("a", numbers)) != NULL);
	CHECK(inject(mp, 0, 0) == -1);
	CHECK(omlc_start() == 0);
	CHECK(omlc_start() == -1);
	CHECK(inject(mp, 0, 0) == 0);
	CHECK(omlc_inject(mp, NULL) == -1);
	CHECK(omlc_inject_metadata(NULL, "schema", &v, OML_INT32_VALUE, NULL) == -1);
	CHECK(omlc_inject_metadata(NULL, NULL, &v, OML_INT32_VALUE, NULL) == -1);
	CHECK(omlc_inject_metadata(NULL, "k", &v, OML_BLOB_VALUE, NULL) == -1);
	CHECK(omlc_inject_metadata(NULL, "k", &v, OML_UNKNOWN_VALUE, NULL) == -1);
	CHECK(omlc_inject_metadata(NULL, "k", &v, OML_STRING_VALUE, NULL) == 0);
	CHECK(omlc_inject_metadata(mp, "k", &v, OML_DOUBLE_VALUE, "n") == 0);
	CHECK(omlc_close() == 0);
	CHECK(omlc_close() == -1);
	CHECK(inject(mp, 0, 0) == -1);
	CHECK(omlc_start() == -1);
	CHECK(pillion_injected(mp) == 1 && pillion_dropped(mp) == 0);
}

APART(switched_off)
{
	OmlValueU v;
	OmlMP *mp;

	omlc_zero(v);
	CHECK(INIT("--oml-noop") == 1);
	CHECK((mp = omlc_add_mp("a", numbers)) != NULL);
	CHECK(omlc_start() == 0);
	CHECK(inject(mp, 0, 0) == 0);
	CHECK(omlc_inject_metadata(mp, "k", &v, OML_INT32_VALUE, NULL) == 0);
	CHECK(omlc_close() == 0);
}

/* A program may continue after a failed init. */
APART(init_failed)
{
	int count = 2;
	const char *line[] = {"app", "--oml-id=x", NULL};
	OmlMP *mp;

	CHECK(omlc_init("app", &count, line, take_message) == -1);
	CHECK(strstr(said, "--oml-domain is required") != NULL);
	mp = omlc_add_mp("a", numbers);
	CHECK(omlc_start() == -1);
	CHECK(inject(mp, 0, 0) == -1);
	CHECK(omlc_close() == -1);
}

static void expect_refusal(const char *inside, const char *message)
{
	OmlMP *mp;
	char text[1024];

	snprintf(text, sizeof text, "<omlc domain='d' id='i'>\n<collect url='file:%s/refused' encoding='text'>\n%s</collect></omlc>\n", folder, inside);
	write_file("config.xml", text);
	CHECK(INIT("--oml-config", path_of("config.xml")) == 0);
	mp = omlc_add_mp("lin", numbers);
	CHECK(omlc_start() == -1);
	CHECK_SAYING(strstr(said, message) != NULL, "got %s want %s", said, message);
	CHECK(inject(mp, 0, 0) == -1);
	CHECK(omlc_close() == -1);
}

#define REFUSAL(name, inside, message)           \
	APART(name)                              \
	{                                        \
		expect_refusal(inside, message); \
	}

REFUSAL(config_filter, "<stream mp='lin' samples='2'>\n<filter field='n' operation='median'/></stream>", "config.xml, line 3: invalid stream")
REFUSAL(config_field, "<stream mp='lin'><filter field='m'/></stream>", "unknown field m")
REFUSAL(config_interval, "\n<stream mp='lin' interval='0,5'/>", "config.xml, line 4: use samples")
REFUSAL(config_both, "<stream mp='lin' interval='1' samples='1'/>", "config.xml, line 3: use samples")
REFUSAL(config_samples, "<stream mp='lin' samples='4294967297'/>", "config.xml, line 3: use samples")
REFUSAL(config_twice, "<stream mp='lin'><filter field='n'/><filter field='n'/></stream>", "use rename")
REFUSAL(config_rename, "<stream mp='lin' samples='2'><filter field='n' rename='a b'/></stream>", "use rename")
REFUSAL(config_name, "<stream mp='lin' name='a-b'/>", "config.xml, line 3: invalid stream name: use letters")
REFUSAL(config_word, "<streams mp='lin'/>", "config.xml, line 3: expected stream elements with an mp")
REFUSAL(config_inside, "<stream mp='lin'><fitler field='n'/></stream>", "config.xml, line 3: expected filter elements with a field")
REFUSAL(config_url, "</collect><collect>", "config.xml, line 3: collect element without url")
REFUSAL(config_encoding, "</collect><collect url='x' encoding='json'>", "config.xml, line 3: encoding must be text or binary")
REFUSAL(config_collector, "</collect><collect url='tcp:[::1'>", "invalid collector 'tcp:[::1'")

APART(config_good)
{
	OmlMP *lin, *other;
	char text[1024];

	snprintf(text, sizeof text,
		 "<omlc domain='d' id='i'><collect url='file:%s/good'>\n<stream mp='lin' samples='1'/>\n<stream mp='lin' samples='2'/>"
		 "<stream mp='lin' name='few' samples='3'><filter field='n' operation='delta' rename='m'/></stream>"
		 "<stream mp='later' interval='1000'/></collect></omlc>", folder);
	write_file("config.xml", text);
	CHECK(INIT("--oml-config", path_of("config.xml")) == 0);
	lin = omlc_add_mp("lin", numbers);
	other = omlc_add_mp("unwanted", numbers);
	CHECK(omlc_start() == 0);
	CHECK_SAYING(strstr(said, "line 3: unknown point later (so far)") != NULL, "%s", said);
	CHECK(inject(other, 1, 1) == 0); /* no stream wants it, and nothing is lost */
	CHECK(pillion_injected(other) == 0);
	for (int i = 0; i < 4; i++)
		CHECK(inject(lin, 2, i * i) == 0);
	CHECK(inject(omlc_add_mp("later", numbers), 3, 5) == 0);
	CHECK(omlc_close() == 0);
	read_file("good");
	{
		char *got = read_file("good");

		CHECK(strstr(got, "schema: 1 app_lin thread:int32 n:int64\n") != NULL);
		CHECK(strstr(got, "schema: 2 app_lin_2 thread_avg:double thread_min:double thread_max:double n_avg:double n_min:double n_max:double\n") != NULL);
		CHECK(strstr(got, "schema: 3 app_few m_delta:double m_last:double\n") != NULL);
		CHECK(strstr(got, "\t1\t4\t2\t9\n") != NULL);
		CHECK(strstr(got, "\t2\t2\t2\t2\t2\t6.5\t4\t9\n") != NULL);
		CHECK(strstr(got, "\t3\t1\t4\t4\n") != NULL);
		CHECK(strstr(got, "\t3\t2\t5\t9\n") != NULL); /* the window that was not full */
		CHECK(strstr(got, "4 app_later thread_avg:double") != NULL); /* in the header or a note */
		CHECK(strstr(got, "\t4\t1\t3\t3\t3\t5\t5\t5\n") != NULL);
	}
}

REFUSAL(config_chain_plain, "<stream mp='lin' samples='2'>\n<stream/></stream>", "config.xml, line 4: a stream inside another one needs filters")
REFUSAL(config_chain_replace, "<stream mp='lin' samples='2'><stream samples='2' replace='1'/></stream>", "config.xml, line 3: replace must be yes or no")
REFUSAL(config_chain_field, "<stream mp='lin' samples='2'><filter field='n' operation='sum'/>\n<stream samples='2'><filter field='n'/></stream></stream>",
	"unknown field n")

static void last_add(void *state, const OmlValue *value)
{
	*(int64_t *)state += 2 * value->value.int64Value;
}

static void last_take(void *state, OmlValueU *outputs)
{
	omlc_set_int64(outputs[0], *(int64_t *)state);
}

/* Sums of two samples, of which the average of three and the maximum are computed, with a
 * filter of the program; times of the program. */
APART(chain)
{
	static const PillionFilter twice = {.name = "twice", .suffixes = {"twice"}, .types = {OML_INPUT_VALUE}, .state = 8, .add = last_add, .take = last_take};
	OmlMP *lin;
	OmlValueU values[2];
	char text[1024], *got;

	CHECK(pillion_register_filter(&twice) == 0);
	snprintf(text, sizeof text,
		 "<omlc domain='d' id='i'><collect url='file:%s/chain'>\n<stream mp='lin' samples='2' name='sums'>"
		 "<filter field='n' operation='sum'/><filter field='n' operation='twice'/>"
		 "<stream samples='3' name='means' replace='yes'><filter field='n_sum' operation='avg'/></stream>"
		 "<stream samples='2'><filter field='n_sum' operation='last'/><stream interval='100' name='end'/></stream></stream></collect></omlc>", folder);
	write_file("config.xml", text);
	CHECK(INIT("--oml-config", path_of("config.xml")) == 0);
	lin = omlc_add_mp("lin", numbers);
	CHECK(omlc_start() == 0 && pillion_register_filter(&twice) == -1);
	omlc_zero_array(values, 2);
	for (int i = 1; i <= 12; i++) {
		omlc_set_int64(values[1], i);
		CHECK(pillion_inject_at(lin, values, 1000000000LL * i) == 0);
	}
	CHECK(omlc_close() == 0);
	got = read_file("chain");
	CHECK_SAYING(strstr(got, "schema: 1 app_means n_sum_avg:double n_sum_min:double n_sum_max:double\n") != NULL, "%s", got);
	CHECK(strstr(got, "schema: 2 app_sums n_sum_last:double\n") != NULL);
	CHECK(strstr(got, "schema: 3 app_end n_sum_last_avg:double") != NULL);
	CHECK(strstr(got, "\t1\t1\t7\t3\t11\n") != NULL && strstr(got, "\t1\t2\t19\t15\t23\n") != NULL);
	CHECK(strstr(got, "\t2\t1\t7\n") != NULL && strstr(got, "\t2\t3\t23\n") != NULL);
	CHECK(strstr(got, "\t3\t1\t15\t7\t23\n") != NULL);
	CHECK(strstr(got, "twice") == NULL); /* only in what was replaced */
}

/* Timestamps are the program's, relative to the start. */
APART(timestamps)
{
	OmlMP *lin;
	OmlValueU values[2];
	long long start = 0;
	char *got, want[64];

	CHECK(INIT("--oml-collect", (snprintf(want, sizeof want, "file:%s/times", folder), want)) == 0);
	lin = omlc_add_mp("lin", numbers);
	CHECK(omlc_start() == 0);
	omlc_zero_array(values, 2);
	start = (long long)time(NULL);
	CHECK(pillion_inject_at(lin, values, (start - 60) * 1000000000) == 0);
	CHECK(pillion_inject_at(lin, values, (start + 3600) * 1000000000 + 500000000) == 0);
	CHECK(pillion_inject_at(NULL, values, 1) == -1);
	CHECK(omlc_close() == 0);
	got = read_file("times");
	CHECK(sscanf(strstr(got, "start-time:"), "start-time: %lld", &start) == 1);
	start = (long long)time(NULL) - start; /* at most a second or two */
	CHECK(strstr(got, "\n-60.000000\t1\t1\t0\t0\n") != NULL || (start > 0 && strstr(got, "\n-59.000000\t1\t1\t0\t0\n") != NULL));
	CHECK(strstr(got, "\n3600.500000\t1\t2\t0\t0\n") != NULL || (start > 0 && strstr(got, "\n3601.500000\t1\t2\t0\t0\n") != NULL));
}

/* A process that was forked measures nothing, and does its parent no harm. */
APART(forked)
{
	OmlMP *mp;
	int status = -1;
	pid_t child;
	char uri[160];

	snprintf(uri, sizeof uri, "file:%s", path_of("forked"));
	CHECK(INIT("--oml-collect", uri) == 0);
	mp = omlc_add_mp("a", numbers);
	CHECK(omlc_start() == 0);
	for (int i = 0; i < 100; i++)
		CHECK(inject(mp, 0, i) == 0);
	child = fork();
	if (child == 0) {
		int right = inject(mp, 1, 1) == -1 && omlc_close() == -1 && omlc_start() == -1;

		_exit(right ? 0 : 1);
	}
	waitpid(child, &status, 0);
	CHECK(status == 0);
	for (int i = 100; i < 200; i++)
		CHECK(inject(mp, 0, i) == 0);
	CHECK(omlc_close() == 0);
	CHECK(strstr(read_file("forked"), "\t1\t200\t0\t199\n") != NULL);
}

/* ---- threads ---- */

static OmlMP *shared;

static void *inject_many(void *number)
{
	for (int64_t n = 0; n < EACH;)
		if (inject(shared, (int)(uintptr_t)number, n) == 0)
			n++;
	return NULL;
}

static void *declare_many(void *unused)
{
	OmlValueU v;
	char name[16];

	(void)unused;
	omlc_zero(v);
	for (int i = 0; i < 100; i++) {
		snprintf(name, sizeof name, "late%d", i);
		CHECK(inject(omlc_add_mp(name, numbers), i, i) == 0);
		omlc_set_int32(v, i);
		CHECK(omlc_inject_metadata(NULL, "count", &v, OML_INT32_VALUE, NULL) == 0);
	}
	return NULL;
}

/* Every sample is there once, numbers without gap, each thread's samples in its order. */
APART(threads)
{
	pthread_t all[THREADS + 1];
	int64_t next[THREADS] = {0}, seq = 0, late = 0, wrong = 0;
	char uri[160];

	snprintf(uri, sizeof uri, "file:%s", path_of("threads"));
	CHECK(INIT("--oml-collect", uri) == 0);
	shared = omlc_add_mp("shared", numbers);
	CHECK(omlc_start() == 0);
	for (int i = 0; i < THREADS; i++)
		pthread_create(&all[i], NULL, inject_many, (void *)(uintptr_t)i);
	pthread_create(&all[THREADS], NULL, declare_many, NULL);
	for (int i = 0; i <= THREADS; i++)
		pthread_join(all[i], NULL);
	CHECK(omlc_close() == 0);
	CHECK(pillion_injected(shared) == (uint64_t)THREADS * EACH);
	for (char *line = strtok(strstr(read_file("threads"), "\n\n") + 2, "\n"); line; line = strtok(NULL, "\n")) {
		int stream, thread;
		long long number, n;

		if (sscanf(line, "%*f\t%d\t%lld\t%d\t%lld", &stream, &number, &thread, &n) != 4)
			continue; /* a note */
		late += stream > 1;
		if (stream != 1)
			continue;
		wrong += number != ++seq;
		wrong += thread < 0 || thread >= THREADS || n != next[thread]++;
	}
	CHECK(wrong == 0);
	CHECK(seq == (int64_t)THREADS * EACH);
	CHECK(late == 100);
}

/* ---- collectors that do not do their part ---- */

/* A server that takes connections and never reads. */
static int deaf(char *uri, size_t size)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t length = sizeof address;
	int fd = socket(AF_INET, SOCK_STREAM, 0), least = 1;

	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &least, sizeof least);
	CHECK(bind(fd, (struct sockaddr *)&address, length) == 0 && listen(fd, 8) == 0);
	CHECK(getsockname(fd, (struct sockaddr *)&address, &length) == 0);
	snprintf(uri, size, "tcp:127.0.0.1:%d", ntohs(address.sin_port));
	return fd;
}

/* Injects until nothing is taken any more, and looks how long close takes. */
static void fill_and_close(const char *uri, int want)
{
	double begun, last;
	OmlMP *mp;
	uint64_t refused = 0, taken = 0;

	CHECK(INIT("--oml-collect", uri, "--oml-ring", "65536", "--oml-bufsize", "0", "--oml-close", "0.3") == 0);
	mp = omlc_add_mp("a", numbers);
	CHECK(omlc_start() == 0);
	/* On a busy machine the sender may wait for a processor: only then for less than 2 s. */
	for (begun = last = now(); now() - last < 2 && now() - begun < 60;) {
		if (inject(mp, 0, (int64_t)taken) == 0) {
			taken++;
			last = now();
		} else { /* under valgrind one thread runs at a time: let the other one send */
			nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
			refused++;
		}
	}
	CHECK(refused > 0 && now() - begun < 60);
	CHECK(pillion_dropped(mp) == refused && pillion_injected(mp) == taken);
	begun = now();
	CHECK(omlc_close() == want);
	CHECK_SAYING(now() - begun < 2, "%g s", now() - begun);
	CHECK(strstr(said, "not all samples delivered") != NULL);
}

APART(collector_deaf)
{
	char uri[64];
	int fd = deaf(uri, sizeof uri);

	fill_and_close(uri, -1);
	close(fd);
}

APART(collector_absent)
{
	char uri[64];

	close(deaf(uri, sizeof uri));
	fill_and_close(uri, -1);
}

/* A file collector that is a pipe without a reader. */
APART(collector_pipe)
{
	char uri[160], path[128];
	int fd;

	snprintf(path, sizeof path, "%s", path_of("pipe"));
	CHECK(mkfifo(path, 0600) == 0);
	fd = open(path, O_RDONLY | O_NONBLOCK);
	snprintf(uri, sizeof uri, "file:%s", path);
	fill_and_close(uri, -1);
	close(fd);
}

/* A name that is looked up does not hold anybody up. */
APART(collector_unknown)
{
	double begun;
	OmlMP *mp;

	CHECK(INIT("--oml-collect", "tcp:collector.invalid:3003", "--oml-close", "0.2") == 0);
	mp = omlc_add_mp("a", numbers);
	CHECK(omlc_start() == 0);
	CHECK(inject(mp, 0, 0) == 0);
	begun = now();
	CHECK(omlc_close() == -1);
	CHECK_SAYING(now() - begun < 2, "%g s", now() - begun);
}

/* One that is dead starves no other. */
APART(collector_dead_and_alive)
{
	char uri[64], text[1024];
	static const char last[] = "\t1\t300000\t0\t299999\n";
	int fd = deaf(uri, sizeof uri);
	OmlMP *mp;

	snprintf(text, sizeof text,
		 "<omlc domain='d' id='i'><collect url='%s'><stream mp='a'/></collect><collect url='tcp:127.0.0.1:1'><stream mp='a'/></collect>"
		 "<collect url='file:%s/alive'><stream mp='a'/></collect></omlc>", uri, folder);
	write_file("config.xml", text);
	CHECK(INIT("--oml-config", path_of("config.xml"), "--oml-bufsize", "0", "--oml-close", "3") == 0);
	mp = omlc_add_mp("a", numbers);
	CHECK(omlc_start() == 0);
	for (int64_t n = 0; n < 300000;)
		if (inject(mp, 0, n) == 0)
			n++;
	/* On a busy machine the live one may need longer than closing waits. */
	for (double begun = now(); strstr(read_file("alive"), last) == NULL && pillion_dropped(mp) == 0 && now() - begun < 60;)
		usleep(100000);
	CHECK(omlc_close() == -1);
	CHECK_SAYING(strstr(read_file("alive"), last) != NULL || pillion_dropped(mp) > 0, "%llu", (unsigned long long)pillion_dropped(mp));
	close(fd);
}

static void identifiers(void)
{
	oml_guid_t a = omlc_guid_generate(), b = omlc_guid_generate();

	CHECK(a != b && a != OMLC_GUID_NULL && b != OMLC_GUID_NULL);
}

/* What the macros allocate and free. */
static void values(void)
{
	OmlValueU a, b;
	int32_t ints[] = {1, -2, 3};

	omlc_zero(a);
	omlc_zero(b);
	omlc_set_string(a, "text");
	CHECK(omlc_get_string_length(a) == 4 && omlc_get_string_size(a) == 0);
	omlc_copy_string(b, a);
	CHECK(omlc_get_string_ptr(b) != omlc_get_string_ptr(a) && strcmp(omlc_get_string_ptr(b), "text") == 0);
	omlc_set_string_copy(b, "longer than before", 6);
	CHECK(strcmp(omlc_get_string_ptr(b), "longer") == 0);
	omlc_set_const_string(b, "const");
	CHECK(omlc_get_string_is_const(b) && omlc_get_string_size(b) == 0);
	omlc_set_string(b, NULL);
	CHECK(omlc_get_string_length(b) == 0);
	omlc_reset_string(b);
	omlc_zero(a);
	omlc_set_blob(a, "\0\1", 2);
	CHECK(omlc_get_blob_length(a) == 2);
	omlc_set_blob(a, "", 0);
	CHECK(omlc_get_blob_length(a) == 0);
	omlc_reset_blob(a);
	omlc_set_vector_int32(a, ints, 3);
	omlc_zero(b);
	omlc_copy_vector(b, a);
	CHECK(omlc_get_vector_nof_elts(b) == 3 && ((int32_t *)omlc_get_vector_ptr(b))[1] == -2);
	omlc_reset_vector(a);
	omlc_reset_vector(b);
	CHECK(omlc_get_vector_ptr(b) == NULL);
}

int main(void)
{
	char remove[64];

	if (!mkdtemp(folder))
		return EXIT_FAILURE;
	RUN(values);
	RUN(identifiers);
	RUN(misuse);
	RUN(switched_off);
	RUN(init_failed);
	RUN(config_filter);
	RUN(config_field);
	RUN(config_interval);
	RUN(config_both);
	RUN(config_samples);
	RUN(config_twice);
	RUN(config_rename);
	RUN(config_name);
	RUN(config_word);
	RUN(config_inside);
	RUN(config_url);
	RUN(config_encoding);
	RUN(config_collector);
	RUN(config_good);
	RUN(config_chain_plain);
	RUN(config_chain_replace);
	RUN(config_chain_field);
	RUN(chain);
	RUN(timestamps);
	RUN(forked);
	RUN(threads);
	RUN(collector_deaf);
	RUN(collector_absent);
	RUN(collector_pipe);
	RUN(collector_unknown);
	RUN(collector_dead_and_alive);
	snprintf(remove, sizeof remove, "rm -r %s", folder);
	if (system(remove) != 0)
		return EXIT_FAILURE;
	END;
}
