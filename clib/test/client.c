/* A client that executes the commands on its standard input, one word a line, and
 * prints the results. The tests in Go control it. */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <oml2/omlc.h>

#define THREADS_MOST 64

static OmlMPDef load_fields[] = {{"n", OML_INT64_VALUE}, {"x", OML_DOUBLE_VALUE}, {"s", OML_STRING_VALUE}, {"u", OML_UINT32_VALUE},
				 {NULL, (OmlValueT)0}};
static OmlMPDef type_fields[] = {
	{"d", OML_DOUBLE_VALUE}, {"l", OML_LONG_VALUE}, {"s", OML_STRING_VALUE}, {"i32", OML_INT32_VALUE}, {"u32", OML_UINT32_VALUE},
	{"i64", OML_INT64_VALUE}, {"u64", OML_UINT64_VALUE}, {"bl", OML_BLOB_VALUE}, {"g", OML_GUID_VALUE}, {"b", OML_BOOL_VALUE},
	{"vd", OML_VECTOR_DOUBLE_VALUE}, {"vi32", OML_VECTOR_INT32_VALUE}, {"vu32", OML_VECTOR_UINT32_VALUE},
	{"vi64", OML_VECTOR_INT64_VALUE}, {"vu64", OML_VECTOR_UINT64_VALUE}, {"vb", OML_VECTOR_BOOL_VALUE}, {NULL, (OmlValueT)0}};

static OmlMP *load, *types;
static int64_t next_number; /* of the sample that comes next */
static _Atomic int again;   /* samples that were refused are tried again */

static int64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

struct job {
	int64_t from, count, refused, worst;
};

static void *inject_all(void *argument)
{
	struct job *job = argument;
	OmlValueU v[4];

	omlc_zero_array(v, 4);
	omlc_set_const_string(v[2], "twelve bytes");
	for (int64_t i = 0; i < job->count; i++) {
		int64_t begun = now(), took;
		int failed;

		omlc_set_int64(v[0], job->from + i);
		omlc_set_double(v[1], (double)(job->from + i) / 10);
		omlc_set_uint32(v[3], (uint32_t)(job->from + i) + 4000000000u);
		failed = omlc_inject(load, v);
		took = now() - begun;
		job->worst = took > job->worst ? took : job->worst;
		job->refused += failed != 0;
		if (failed && again)
			i--;
	}
	return NULL;
}

static void inject(int threads, long count)
{
	pthread_t all[THREADS_MOST];
	struct job jobs[THREADS_MOST];
	int64_t refused = 0, worst = 0;

	for (int i = 0; i < threads; i++) {
		jobs[i] = (struct job){.from = next_number, .count = count};
		next_number += count;
		pthread_create(&all[i], NULL, inject_all, &jobs[i]);
	}
	for (int i = 0; i < threads; i++) {
		pthread_join(all[i], NULL);
		refused += jobs[i].refused;
		worst = jobs[i].worst > worst ? jobs[i].worst : worst;
	}
	printf("refused %lld worst %lld\n", (long long)refused, (long long)worst);
}

/* Samples of every type: at one end of their ranges, at the other, and empty. */
static void inject_types(void)
{
	static const double d[] = {1.5, -0.1};
	static const int32_t i32[] = {INT32_MIN, INT32_MAX};
	static const uint32_t u32[] = {0, UINT32_MAX};
	static const int64_t i64[] = {INT64_MIN, INT64_MAX};
	static const uint64_t u64[] = {0, UINT64_MAX};
	static const bool b[] = {true, false};
	int failed = 0;

	for (int i = 0; i < 3; i++) {
		int side = i < 2 ? i : 0;
		size_t length = i < 2 ? 2 : 0;
		OmlValueU v[16];

		omlc_zero_array(v, 16);
		omlc_set_double(v[0], i < 2 ? d[side] : NAN);
		omlc_set_long(v[1], side ? 1L << 40 : -7);
		omlc_set_string_copy(v[2], "a\tb\\c\nd\r\xc3\xa4", length ? 10 : 0);
		omlc_set_int32(v[3], i32[side]);
		omlc_set_uint32(v[4], u32[side]);
		omlc_set_int64(v[5], i64[side]);
		omlc_set_uint64(v[6], u64[side]);
		omlc_set_blob(v[7], "\x00\x01\xff", length ? 3 : 0);
		omlc_set_guid(v[8], 0x1122334455667788);
		omlc_set_bool(v[9], side);
		omlc_set_vector_double(v[10], d, length);
		omlc_set_vector_int32(v[11], i32, length);
		omlc_set_vector_uint32(v[12], u32, length);
		omlc_set_vector_int64(v[13], i64, length);
		omlc_set_vector_uint64(v[14], u64, length);
		omlc_set_vector_bool(v[15], b, length);
		failed |= omlc_inject(types, v);
		omlc_reset_string(v[2]);
		omlc_reset_blob(v[7]);
		for (int n = 10; n < 16; n++)
			omlc_reset_vector(v[n]);
	}
	printf("types %d\n", failed);
}

/* A text of that many letters. */
static void inject_long(long count)
{
	OmlValueU v[4];
	char *text = malloc((size_t)count + 1);

	memset(text, 'x', (size_t)count);
	text[count] = '\0';
	omlc_zero_array(v, 4);
	omlc_set_string(v[2], text);
	printf("long %d\n", omlc_inject(load, v));
	free(text);
}

static void note(const char *key, const char *text)
{
	OmlValueU v;

	omlc_zero(v);
	omlc_set_string(v, text);
	printf("note %d\n", omlc_inject_metadata(load, key, &v, OML_STRING_VALUE, "n"));
}

static void add(const char *name)
{
	static OmlMPDef fields[] = {{"a", OML_INT32_VALUE}, {NULL, (OmlValueT)0}};
	OmlMP *mp = omlc_add_mp(name, fields);
	OmlValueU v;

	omlc_zero(v);
	omlc_set_int32(v, 42);
	printf("add %d\n", omlc_inject(mp, &v));
}

int main(int argc, const char **argv)
{
	char line[256], word[64], text[64];
	long a, b;

	if (omlc_init("client", &argc, argv, NULL) < 0)
		return EXIT_FAILURE;
	load = omlc_add_mp("load", load_fields);
	types = omlc_add_mp("types", type_fields);
	if (omlc_start() < 0)
		return EXIT_FAILURE;
	while (fgets(line, sizeof line, stdin)) {
		if (sscanf(line, "inject %ld %ld", &a, &b) == 2)
			inject((int)a, b);
		else if (sscanf(line, "long %ld", &a) == 1)
			inject_long(a);
		else if (sscanf(line, "note %63s %63s", word, text) == 2)
			note(word, text);
		else if (sscanf(line, "add %63s", word) == 1)
			add(word);
		else if (strcmp(line, "types\n") == 0)
			inject_types();
		else if (strcmp(line, "again\n") == 0)
			printf("again %d\n", again = 1);
		else if (strcmp(line, "counts\n") == 0)
			printf("counts %llu %llu\n", (unsigned long long)pillion_injected(load), (unsigned long long)pillion_dropped(load));
		else
			break; /* close */
		fflush(stdout);
	}
	{
		int64_t begun = now();
		int failed = omlc_close();

		printf("close %d %lld\n", failed, (long long)(now() - begun));
	}
	return EXIT_SUCCESS;
}
