#include "encode.h"

#include <math.h>
#include <stdatomic.h>

#include "number.h"

enum {
	TAG_DOUBLE = 2, TAG_NAN, TAG_STRING, TAG_INT32, TAG_UINT32, TAG_INT64, TAG_UINT64,
	TAG_BLOB, TAG_GUID, TAG_FALSE, TAG_TRUE, TAG_VECTOR, TAG_BOOL, TAG_IEEE
};

/* Tag and size of the numbers of each type; elements of vectors are IEEE doubles. */
static const struct {
	unsigned char tag, size;
} forms[OML_LAST_VALUE] = {
	[OML_LONG_VALUE] = {TAG_INT32, 4}, [OML_INT32_VALUE] = {TAG_INT32, 4}, [OML_UINT32_VALUE] = {TAG_UINT32, 4},
	[OML_INT64_VALUE] = {TAG_INT64, 8}, [OML_UINT64_VALUE] = {TAG_UINT64, 8}, [OML_GUID_VALUE] = {TAG_GUID, 8},
	[OML_DOUBLE_VALUE] = {TAG_IEEE, 8}, [OML_BOOL_VALUE] = {TAG_BOOL, 1},
};

static unsigned char *put(unsigned char *to, uint64_t n, int bytes)
{
	while (bytes-- > 0)
		*to++ = (unsigned char)(n >> (8 * bytes));
	return to;
}

static uint64_t get(const unsigned char *from, int bytes)
{
	uint64_t n = 0;

	while (bytes-- > 0)
		n = n << 8 | *from++;
	return n;
}

static uint64_t bits_of(double x)
{
	uint64_t bits;

	memcpy(&bits, &x, sizeof bits);
	return bits;
}

static double real_of(uint64_t bits)
{
	double x;

	memcpy(&x, &bits, sizeof x);
	return x;
}

/* ---- text ---- */

static const char base64[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static int text_blob(struct buffer *to, const unsigned char *from, size_t length)
{
	unsigned char *at = buffer_room(to, (length + 2) / 3 * 4);

	if (!at)
		return -1;
	for (size_t i = 0; i < length; i += 3) {
		size_t left = length - i;
		uint32_t three = (uint32_t)from[i] << 16 | (left > 1 ? (uint32_t)from[i + 1] << 8 : 0) | (left > 2 ? from[i + 2] : 0);

		*at++ = (unsigned char)base64[three >> 18];
		*at++ = (unsigned char)base64[three >> 12 & 63];
		*at++ = (unsigned char)(left > 1 ? base64[three >> 6 & 63] : '=');
		*at++ = (unsigned char)(left > 2 ? base64[three & 63] : '=');
	}
	to->used = (size_t)(at - to->bytes);
	return 0;
}

static int text_string(struct buffer *to, const unsigned char *from, size_t length)
{
	unsigned char *at = buffer_room(to, 2 * length);

	if (!at)
		return -1;
	for (size_t i = 0; i < length; i++) {
		switch (from[i]) {
		case '\t': *at++ = '\\'; *at++ = 't'; break;
		case '\n': *at++ = '\\'; *at++ = 'n'; break;
		case '\r': *at++ = '\\'; *at++ = 'r'; break;
		case '\\': *at++ = '\\'; *at++ = '\\'; break;
		default: *at++ = from[i];
		}
	}
	to->used = (size_t)(at - to->bytes);
	return 0;
}

static unsigned char *text_scalar(unsigned char *to, OmlValueT type, uint64_t bits)
{
	switch (type) {
	case OML_DOUBLE_VALUE:
		return number_real(to, real_of(bits));
	case OML_LONG_VALUE:
	case OML_INT32_VALUE:
	case OML_INT64_VALUE:
		return number_integer(to, (int64_t)bits);
	case OML_BOOL_VALUE:
		*to++ = bits ? 'T' : 'F';
		return to;
	default:
		return number_natural(to, bits);
	}
}

static int text_vector(struct buffer *to, const struct value *v)
{
	unsigned char *at = buffer_room(to, NUMBER_MAX * (v->length + 1));

	if (!at)
		return -1;
	at = number_natural(at, v->length);
	for (size_t i = 0; i < v->length; i++) {
		uint64_t bits;

		memcpy(&bits, (const unsigned char *)v->bytes + 8 * i, 8);
		*at++ = ' ';
		if (v->type == OML_VECTOR_BOOL_VALUE) { /* OML writes words in vectors */
			memcpy(at, bits ? "True" : "False", 5);
			at += bits ? 4 : 5;
		} else {
			at = text_scalar(at, type_element(v->type), bits);
		}
	}
	to->used = (size_t)(at - to->bytes);
	return 0;
}

static int text_value(struct buffer *to, const struct value *v)
{
	unsigned char *at;

	if (v->type == OML_STRING_VALUE)
		return text_string(to, v->bytes, v->length);
	if (v->type == OML_BLOB_VALUE)
		return text_blob(to, v->bytes, v->length);
	if (omlc_is_vector_type(v->type))
		return text_vector(to, v);
	at = buffer_room(to, NUMBER_MAX);
	if (!at)
		return -1;
	to->used = (size_t)(text_scalar(at, v->type, v->natural) - to->bytes);
	return 0;
}

static int encode_text(struct buffer *to, int index, int64_t seq, int64_t time, const struct value *values, int count)
{
	unsigned char *at = buffer_room(to, 3 * NUMBER_MAX);
	uint64_t ns = time < 0 ? -(uint64_t)time : (uint64_t)time;

	if (!at)
		return -1;
	if (time < 0)
		*at++ = '-';
	at = number_natural(at, ns / 1000000000);
	*at++ = '.';
	for (uint64_t digit = 100000000; digit >= (ns % 1000 ? 1 : 1000); digit /= 10)
		*at++ = (unsigned char)('0' + ns / digit % 10);
	*at++ = '\t';
	at = number_integer(at, index);
	*at++ = '\t';
	at = number_integer(at, seq);
	to->used = (size_t)(at - to->bytes);
	for (int i = 0; i < count; i++)
		if (buffer_add(to, "\t", 1) < 0 || text_value(to, &values[i]) < 0)
			return -1;
	return buffer_add(to, "\n", 1);
}

/* ---- binary ---- */

static unsigned char *binary_real(unsigned char *to, double x, int ieee)
{
	int exponent = 0;
	double fraction;

	if (ieee) {
		*to++ = TAG_IEEE;
		return put(to, bits_of(x), 8);
	}
	fraction = frexp(x, &exponent);
	if (!isfinite(x) || exponent > INT8_MAX) {
		*to++ = TAG_NAN;
		return put(to, 0, 5);
	}
	if (exponent < INT8_MIN)
		fraction = exponent = 0;
	*to++ = TAG_DOUBLE;
	to = put(to, (uint32_t)(int32_t)(fraction * (1 << 30)), 4);
	return put(to, (uint8_t)(int8_t)exponent, 1);
}

static unsigned char *binary_scalar(unsigned char *to, const struct value *v, int ieee)
{
	if (v->type == OML_DOUBLE_VALUE)
		return binary_real(to, v->real, ieee);
	if (v->type == OML_BOOL_VALUE)
		return put(to, v->natural ? TAG_TRUE : TAG_FALSE, 1);
	*to++ = forms[v->type].tag;
	return put(to, v->natural, forms[v->type].size);
}

static int binary_vector(struct buffer *to, const struct value *v)
{
	OmlValueT type = type_element(v->type);
	unsigned char *at = v->length > UINT16_MAX ? NULL : buffer_room(to, 4 + 8 * v->length);

	if (!at)
		return -1;
	*at++ = TAG_VECTOR;
	*at++ = forms[type].tag;
	at = put(at, v->length, 2);
	for (size_t i = 0; i < v->length; i++) {
		uint64_t bits;

		memcpy(&bits, (const unsigned char *)v->bytes + 8 * i, 8);
		if (type == OML_BOOL_VALUE)
			bits = bits ? TAG_TRUE : TAG_FALSE;
		at = put(at, bits, forms[type].size);
	}
	to->used = (size_t)(at - to->bytes);
	return 0;
}

/* The length to which a string is truncated, at a character boundary. */
static size_t binary_length(const struct value *v)
{
	static atomic_flag warned = ATOMIC_FLAG_INIT;
	const unsigned char *bytes = v->bytes;
	size_t length = UINT8_MAX;

	if (v->length <= UINT8_MAX)
		return v->length;
	if (!atomic_flag_test_and_set(&warned))
		logwarn("oml: strings longer than %d bytes are truncated in binary; use --oml-text to send them completely\n", UINT8_MAX);
	for (int back = 0; back < 3 && (bytes[length] & 0xC0) == 0x80; back++)
		length--;
	return (bytes[length] & 0xC0) == 0x80 ? UINT8_MAX : length;
}

static int binary_value(struct buffer *to, const struct value *v, int ieee)
{
	unsigned char *at;

	if (omlc_is_vector_type(v->type))
		return binary_vector(to, v);
	at = buffer_room(to, 9 + (type_is_long(v->type) ? v->length : 0));
	if (!at)
		return -1;
	if (v->type == OML_STRING_VALUE) {
		size_t length = binary_length(v);

		*at++ = TAG_STRING;
		at = put(at, length, 1);
		memcpy(at, length ? v->bytes : "", length);
		at += length;
	} else if (v->type == OML_BLOB_VALUE) {
		*at++ = TAG_BLOB;
		at = put(at, v->length, 4);
		memcpy(at, v->length ? v->bytes : "", v->length);
		at += v->length;
	} else {
		at = binary_scalar(at, v, ieee);
	}
	to->used = (size_t)(at - to->bytes);
	return 0;
}

size_t packet_size(const unsigned char *packet, size_t *head)
{
	int field = packet[2] == 1 ? 2 : 4; /* bytes of the length */

	*head = 3 + (size_t)field;
	return *head + get(packet + 3, field);
}

static int encode_binary(struct buffer *to, int ieee, int index, int64_t seq, int64_t time,
			 const struct value *values, int count)
{
	size_t start = to->used, length;
	unsigned char *at = buffer_room(to, NUMBER_MAX);

	if (!at || index > UINT8_MAX || count > UINT8_MAX)
		return -1;
	at = put(at, 0xAAAA01, 3);
	at = put(at, 0, 2);
	at = put(at, (uint64_t)count, 1);
	at = put(at, (uint64_t)index, 1);
	*at++ = seq > INT32_MAX && ieee ? TAG_INT64 : TAG_INT32;
	at = put(at, (uint64_t)seq, seq > INT32_MAX && ieee ? 8 : 4);
	at = binary_real(at, (double)time / 1e9, ieee);
	to->used = (size_t)(at - to->bytes);
	for (int i = 0; i < count; i++) {
		if (binary_value(to, &values[i], ieee) < 0) {
			to->used = start;
			return -1;
		}
	}
	length = to->used - start - 5;
	if (length <= UINT16_MAX) {
		put(to->bytes + start + 3, length, 2);
		return 0;
	}
	if (!buffer_room(to, 2)) {
		to->used = start;
		return -1;
	}
	memmove(to->bytes + start + 7, to->bytes + start + 5, length);
	to->bytes[start + 2] = 2;
	put(to->bytes + start + 3, length, 4);
	to->used += 2;
	return 0;
}

/* Bytes of a value, by its tag. */
static size_t binary_size(const unsigned char *v)
{
	static const unsigned char sizes[] = {
		[TAG_DOUBLE] = 5, [TAG_NAN] = 5, [TAG_STRING] = 1, [TAG_INT32] = 4, [TAG_UINT32] = 4, [TAG_INT64] = 8, [TAG_UINT64] = 8,
		[TAG_BLOB] = 4, [TAG_GUID] = 8, [TAG_FALSE] = 0, [TAG_TRUE] = 0, [TAG_VECTOR] = 3, [TAG_BOOL] = 1, [TAG_IEEE] = 8,
	};
	size_t size = 1 + (size_t)sizes[*v];

	if (*v == TAG_STRING || *v == TAG_BLOB)
		size += get(v + 1, sizes[*v]);
	return *v == TAG_VECTOR ? size + get(v + 2, 2) * sizes[v[1]] : size;
}

void encode_plain(struct buffer *b)
{
	unsigned char *to = b->bytes;
	const unsigned char *from = b->bytes, *all = b->bytes + b->used;

	while (from < all) {
		size_t head;
		const unsigned char *end = from + packet_size(from, &head);
		unsigned char *begin = to;

		memmove(to, from, head + 2); /* with the number of values and the stream */
		to += head + 2;
		from += head + 2;
		while (from < end) {
			size_t size = binary_size(from);

			if (*from == TAG_IEEE) {
				to = binary_real(to, real_of(get(from + 1, 8)), 0);
			} else {
				memmove(to, from, size);
				to += size;
			}
			from += size;
		}
		put(begin + 3, (uint64_t)(to - begin) - head, (int)head - 3);
	}
	b->used = (size_t)(to - b->bytes);
}

int encode_scalar(struct buffer *to, const struct value *v)
{
	unsigned char *at = buffer_room(to, NUMBER_MAX);

	if (!at)
		return -1;
	to->used = (size_t)(text_scalar(at, v->type, v->natural) - to->bytes);
	return 0;
}

int encode_tuple(struct buffer *to, enum content content, int index, int64_t seq, int64_t time,
		 const struct value *values, int count)
{
	size_t start = to->used;
	int failed;

	if (content != CONTENT_TEXT)
		return encode_binary(to, content == CONTENT_IEEE, index, seq, time, values, count);
	failed = encode_text(to, index, seq, time, values, count);
	if (failed)
		to->used = start;
	return failed;
}
