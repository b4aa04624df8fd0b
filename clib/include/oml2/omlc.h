/*
 * The client interface of OML, implemented by libpillion: an application declares
 * measurement points, injects samples, and the library sends them to collectors.
 *
 * Programs written for liboml2 compile unchanged and link with -lpillion (or -loml2).
 * Differences: omlc_inject never blocks, is thread-safe, and reports when a sample was
 * dropped.
 */
#ifndef OML_OMLC_H_
#define OML_OMLC_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <ocomm/o_log.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Visibility of exported symbols. */
#if defined PILLION_LIBRARY && defined __GNUC__
#pragma GCC visibility push(default)
#endif

/* Types of values. OML_LONG_VALUE is deprecated: it is sent as int32. */
typedef enum OmlValueT {
	OML_INPUT_VALUE = -2, /* of filters: the type of the input */
	OML_UNKNOWN_VALUE = -1,
	OML_DOUBLE_VALUE = 0,
	OML_LONG_VALUE,
	OML_PADDING1_VALUE,
	OML_STRING_VALUE,
	OML_INT32_VALUE,
	OML_UINT32_VALUE,
	OML_INT64_VALUE,
	OML_UINT64_VALUE,
	OML_BLOB_VALUE,
	OML_GUID_VALUE,
	OML_BOOL_VALUE,
	OML_VECTOR_DOUBLE_VALUE,
	OML_VECTOR_INT32_VALUE,
	OML_VECTOR_UINT32_VALUE,
	OML_VECTOR_INT64_VALUE,
	OML_VECTOR_UINT64_VALUE,
	OML_VECTOR_BOOL_VALUE,
	OML_LAST_VALUE
} OmlValueT;

typedef uint64_t oml_guid_t;

#define OMLC_GUID_NULL ((oml_guid_t)0)
#define OMLC_BOOL_FALSE 0
#define OMLC_BOOL_TRUE 1

typedef struct OmlString {
	char *ptr;
	size_t length; /* without the terminator */
	size_t size;   /* allocated by the library; 0: ptr belongs to the program */
	int is_const;
} OmlString;

typedef struct OmlBlob {
	void *ptr;
	size_t length;
	size_t size;
} OmlBlob;

typedef struct OmlVector {
	void *ptr;
	size_t length; /* bytes */
	size_t size;
	uint16_t nof_elts;
	uint16_t elt_sz;
} OmlVector;

/* A value of its field's type. */
typedef union OmlValueU {
	long longValue;
	double doubleValue;
	OmlString stringValue;
	int32_t int32Value;
	uint32_t uint32Value;
	int64_t int64Value;
	uint64_t uint64Value;
	OmlBlob blobValue;
	oml_guid_t guidValue;
	uint8_t boolValue;
	OmlVector vectorValue;
} OmlValueU;

typedef struct OmlValue {
	OmlValueT type;
	OmlValueU value;
} OmlValue;

/* A field of a measurement point. An array of them ends with {NULL, (OmlValueT)0}. */
typedef struct OmlMPDef {
	const char *name;
	OmlValueT param_types;
} OmlMPDef;

/* A measurement point. */
typedef struct OmlMP OmlMP;

/* Reads the options --oml-..., which it removes from argv, the environment and the
 * configuration. Returns 0; 1 if measurement is disabled (--oml-noop); -1 on an error:
 * the program may continue, and samples are discarded. For --oml-help and
 * --oml-list-filters it prints and exits. */
int omlc_init(const char *application, int *argc, const char **argv, o_log_fn log);

/* Declares a measurement point, before or after omlc_start. NULL on an error. The
 * definition is copied. */
OmlMP *omlc_add_mp(const char *name, OmlMPDef *definition);

/* Starts sending. Returns 0, or -1. */
int omlc_start(void);

/* Injects a sample: one value per field. Never blocks; thread-safe. Values are copied
 * before it returns. Returns 0, or -1 if the sample was dropped; drops are counted, and
 * the count is sent. */
int omlc_inject(OmlMP *mp, OmlValueU *values);

/* Sends metadata about a measurement point, one of its fields (field not NULL) or,
 * without mp, the experiment. Returns 0 or -1. */
int omlc_inject_metadata(OmlMP *mp, const char *key, const OmlValueU *value, OmlValueT type, const char *field);

/* A random identifier, never OMLC_GUID_NULL. */
oml_guid_t omlc_guid_generate(void);

/* Sends queued samples and stops. Takes a few seconds at most, even if no collector
 * responds; returns 0, or -1 if samples could not be delivered. */
int omlc_close(void);

/* The deprecated name of omlc_inject. */
void omlc_process(OmlMP *mp, OmlValueU *values);

/* Injects a sample measured at a time of the program's own, ns since 1970, such as the
 * kernel's time of a captured packet: oml_ts_client is relative to it. Otherwise like
 * omlc_inject. Intervals of filters are by the time of the injection. */
int pillion_inject_at(OmlMP *mp, OmlValueU *values, int64_t time_ns);

/* A filter of the program's own, for the operation attribute of a configuration. Its
 * functions are called by the library's thread; state and values belong to one window
 * of one field. */
#define PILLION_OUTPUTS 3
typedef struct PillionFilter {
	const char *name; /* letters, digits and _, unique among filters */
	const char *suffixes[PILLION_OUTPUTS]; /* of output columns, after the field's name; "": none; NULL ends them */
	/* Types of the outputs: numbers, bool, guid or string. OML_INPUT_VALUE is the type of the field. */
	OmlValueT types[PILLION_OUTPUTS];
	int any;      /* 0: only for fields that are numbers; 1: for all but vectors */
	size_t state; /* bytes; zero at the start of the first window */
	/* Begins a window. NULL: sets the state to zero. */
	void (*begin)(void *state);
	/* Adds a value. Strings and blobs have a length and no terminator, and belong to the library. */
	void (*add)(void *state, const OmlValue *value);
	/* Sets the outputs at the end of a window; strings must stay valid until the next call. */
	void (*take)(void *state, OmlValueU *outputs);
} PillionFilter;

/* Registers a filter, which is copied but for its name and suffixes, before omlc_start.
 * Returns 0, or -1 with a message. Before omlc_init, --oml-list-filters lists it. */
int pillion_register_filter(const PillionFilter *filter);

/* Numbers of samples injected into a point, and dropped. */
uint64_t pillion_injected(const OmlMP *mp);
uint64_t pillion_dropped(const OmlMP *mp);

/* Memory allocation of the macros below. */
void *oml_malloc(size_t size);
void oml_free(void *ptr);
size_t oml_malloc_usable_size(void *ptr);
/* Copies bytes into growing storage; 0, or -1 if out of memory. */
int pillion_keep(void **ptr, size_t *size, const void *from, size_t length, size_t room);

#define omlc_zero(var) memset(&(var), 0, sizeof(OmlValueU))
#define omlc_zero_array(var, n) memset((var), 0, (n) * sizeof(OmlValueU))

#define omlc_is_integer_type(t) ((t) == OML_LONG_VALUE || ((t) >= OML_INT32_VALUE && (t) <= OML_UINT64_VALUE))
#define omlc_is_numeric_type(t) (omlc_is_integer_type(t) || (t) == OML_DOUBLE_VALUE)
#define omlc_is_string_type(t) ((t) == OML_STRING_VALUE)
#define omlc_is_blob_type(t) ((t) == OML_BLOB_VALUE)
#define omlc_is_guid_type(t) ((t) == OML_GUID_VALUE)
#define omlc_is_bool_type(t) ((t) == OML_BOOL_VALUE)
#define omlc_is_vector_type(t) ((t) >= OML_VECTOR_DOUBLE_VALUE && (t) <= OML_VECTOR_BOOL_VALUE)
#define omlc_is_scalar_type(t) (!omlc_is_vector_type(t))
#define omlc_is_integer(v) omlc_is_integer_type((v).type)
#define omlc_is_numeric(v) omlc_is_numeric_type((v).type)
#define omlc_is_string(v) omlc_is_string_type((v).type)
#define omlc_is_blob(v) omlc_is_blob_type((v).type)
#define omlc_is_guid(v) omlc_is_guid_type((v).type)
#define omlc_is_bool(v) omlc_is_bool_type((v).type)
#define omlc_is_vector(v) omlc_is_vector_type((v).type)

#define omlc_get_int32(var) ((var).int32Value)
#define omlc_get_uint32(var) ((var).uint32Value)
#define omlc_get_int64(var) ((var).int64Value)
#define omlc_get_uint64(var) ((var).uint64Value)
#define omlc_get_double(var) ((var).doubleValue)
#define omlc_get_long(var) ((var).longValue)
#define omlc_get_guid(var) ((var).guidValue)
#define omlc_get_bool(var) ((var).boolValue != OMLC_BOOL_FALSE)

#define omlc_set_int32(var, val) ((var).int32Value = (int32_t)(val))
#define omlc_set_uint32(var, val) ((var).uint32Value = (uint32_t)(val))
#define omlc_set_int64(var, val) ((var).int64Value = (int64_t)(val))
#define omlc_set_uint64(var, val) ((var).uint64Value = (uint64_t)(val))
#define omlc_set_double(var, val) ((var).doubleValue = (double)(val))
#define omlc_set_long(var, val) ((var).longValue = (long)(val))
#define omlc_set_guid(var, val) ((var).guidValue = (oml_guid_t)(val))
#define omlc_set_bool(var, val) ((var).boolValue = ((val) != OMLC_BOOL_FALSE))

#define omlc_get_string_ptr(var) ((var).stringValue.ptr)
#define omlc_get_string_length(var) ((var).stringValue.length)
#define omlc_get_string_size(var) ((var).stringValue.size)
#define omlc_get_string_is_const(var) ((var).stringValue.is_const)
#define omlc_set_string_ptr(var, val) ((var).stringValue.ptr = (char *)(val))
#define omlc_set_string_length(var, val) ((var).stringValue.length = (size_t)(val))
#define omlc_set_string_size(var, val) ((var).stringValue.size = (size_t)(val))
#define omlc_set_string_is_const(var, val) ((var).stringValue.is_const = (int)(val))
#define omlc_get_blob_ptr(var) ((var).blobValue.ptr)
#define omlc_get_blob_length(var) ((var).blobValue.length)
#define omlc_get_blob_size(var) ((var).blobValue.size)
#define omlc_set_blob_ptr(var, val) ((var).blobValue.ptr = (void *)(val))
#define omlc_set_blob_length(var, val) ((var).blobValue.length = (size_t)(val))
#define omlc_set_blob_size(var, val) ((var).blobValue.size = (size_t)(val))
#define omlc_get_vector_ptr(var) ((var).vectorValue.ptr)
#define omlc_get_vector_length(var) ((var).vectorValue.length)
#define omlc_get_vector_size(var) ((var).vectorValue.size)
#define omlc_get_vector_elt_size(var) ((var).vectorValue.elt_sz)
#define omlc_get_vector_nof_elts(var) ((var).vectorValue.nof_elts)
#define omlc_set_vector_ptr(var, val) ((var).vectorValue.ptr = (void *)(val))
#define omlc_set_vector_length(var, val) ((var).vectorValue.length = (size_t)(val))
#define omlc_set_vector_size(var, val) ((var).vectorValue.size = (size_t)(val))
#define omlc_set_vector_elt_size(var, val) ((var).vectorValue.elt_sz = (uint16_t)(val))
#define omlc_set_vector_nof_elts(var, val) ((var).vectorValue.nof_elts = (uint16_t)(val))

/* Frees memory that the library allocated for a value. */
static inline void pillion_free_string(OmlString *s)
{
	if (s->size > 0)
		oml_free(s->ptr);
	memset(s, 0, sizeof *s);
}

static inline void pillion_free_blob(OmlBlob *b)
{
	if (b->size > 0)
		oml_free(b->ptr);
	memset(b, 0, sizeof *b);
}

static inline void pillion_free_vector(OmlVector *v)
{
	if (v->size > 0)
		oml_free(v->ptr);
	memset(v, 0, sizeof *v);
}

/* Sets a value to a text that belongs to the program. */
static inline void pillion_set_string(OmlString *s, const char *text, int is_const)
{
	pillion_free_string(s);
	s->ptr = (char *)text;
	s->length = text ? strlen(text) : 0;
	s->is_const = is_const;
}

/* Copies a text of that length into the value. */
static inline void pillion_copy_string(OmlString *s, const char *text, size_t length)
{
	void *kept = s->size > 0 ? s->ptr : NULL;

	if (pillion_keep(&kept, &s->size, text, length, length + 1) < 0)
		length = 0;
	s->ptr = (char *)kept;
	if (s->ptr)
		s->ptr[length] = '\0';
	s->length = length;
	s->is_const = 0;
}

static inline void pillion_copy_blob(OmlBlob *b, const void *bytes, size_t length)
{
	void *kept = b->size > 0 ? b->ptr : NULL;

	b->length = pillion_keep(&kept, &b->size, bytes, length, length) < 0 ? 0 : length;
	b->ptr = kept;
}

static inline void pillion_copy_vector(OmlVector *v, const void *elements, size_t count, size_t each)
{
	void *kept = v->size > 0 ? v->ptr : NULL;

	if (count > UINT16_MAX || pillion_keep(&kept, &v->size, elements, count * each, count * each) < 0)
		count = 0;
	v->ptr = kept;
	v->length = count * each;
	v->nof_elts = (uint16_t)count;
	v->elt_sz = (uint16_t)each;
}

#define omlc_free_string(var) pillion_free_string(&(var).stringValue)
#define omlc_reset_string(var) pillion_free_string(&(var).stringValue)
#define omlc_set_string(var, str) pillion_set_string(&(var).stringValue, (str), 0)
#define omlc_set_const_string(var, str) pillion_set_string(&(var).stringValue, (str), 1)
#define omlc_set_string_copy(var, str, len) pillion_copy_string(&(var).stringValue, (str), (len))
#define omlc_copy_string(dst, src) omlc_set_string_copy(dst, omlc_get_string_ptr(src), omlc_get_string_length(src))
#define omlc_free_blob(var) pillion_free_blob(&(var).blobValue)
#define omlc_reset_blob(var) pillion_free_blob(&(var).blobValue)
#define omlc_set_blob(var, val, len) pillion_copy_blob(&(var).blobValue, (val), (len))
#define omlc_set_blob_copy(var, val, len) omlc_set_blob(var, val, len)
#define omlc_copy_blob(dst, src) omlc_set_blob(dst, omlc_get_blob_ptr(src), omlc_get_blob_length(src))
#define omlc_free_vector(var) pillion_free_vector(&(var).vectorValue)
#define omlc_reset_vector(var) pillion_free_vector(&(var).vectorValue)
#define pillion_set_vector(var, val, n, type) pillion_copy_vector(&(var).vectorValue, (val), (n), sizeof(type))
#define omlc_set_vector_double(var, val, n) pillion_set_vector(var, val, n, double)
#define omlc_set_vector_long(var, val, n) pillion_set_vector(var, val, n, long)
#define omlc_set_vector_int32(var, val, n) pillion_set_vector(var, val, n, int32_t)
#define omlc_set_vector_uint32(var, val, n) pillion_set_vector(var, val, n, uint32_t)
#define omlc_set_vector_int64(var, val, n) pillion_set_vector(var, val, n, int64_t)
#define omlc_set_vector_uint64(var, val, n) pillion_set_vector(var, val, n, uint64_t)
#define omlc_set_vector_bool(var, val, n) pillion_set_vector(var, val, n, bool)
#define omlc_copy_vector(dst, src) \
	pillion_copy_vector(&(dst).vectorValue, omlc_get_vector_ptr(src), omlc_get_vector_nof_elts(src), omlc_get_vector_elt_size(src))

#if defined PILLION_LIBRARY && defined __GNUC__
#pragma GCC visibility pop
#endif

#ifdef __cplusplus
}
#endif

#endif
