#include "value.h"

#define CELL 8u /* bytes; everything in a record is a multiple of it */

static const struct {
	const char *name;
	OmlValueT element;
} types[OML_LAST_VALUE] = {
	[OML_DOUBLE_VALUE] = {"double", OML_DOUBLE_VALUE},
	[OML_LONG_VALUE] = {"int32", OML_LONG_VALUE},
	[OML_STRING_VALUE] = {"string", OML_STRING_VALUE},
	[OML_INT32_VALUE] = {"int32", OML_INT32_VALUE},
	[OML_UINT32_VALUE] = {"uint32", OML_UINT32_VALUE},
	[OML_INT64_VALUE] = {"int64", OML_INT64_VALUE},
	[OML_UINT64_VALUE] = {"uint64", OML_UINT64_VALUE},
	[OML_BLOB_VALUE] = {"blob", OML_BLOB_VALUE},
	[OML_GUID_VALUE] = {"guid", OML_GUID_VALUE},
	[OML_BOOL_VALUE] = {"bool", OML_BOOL_VALUE},
	[OML_VECTOR_DOUBLE_VALUE] = {"[double]", OML_DOUBLE_VALUE},
	[OML_VECTOR_INT32_VALUE] = {"[int32]", OML_INT32_VALUE},
	[OML_VECTOR_UINT32_VALUE] = {"[uint32]", OML_UINT32_VALUE},
	[OML_VECTOR_INT64_VALUE] = {"[int64]", OML_INT64_VALUE},
	[OML_VECTOR_UINT64_VALUE] = {"[uint64]", OML_UINT64_VALUE},
	[OML_VECTOR_BOOL_VALUE] = {"[bool]", OML_BOOL_VALUE},
};

const char *type_name(OmlValueT type)
{
	return type >= 0 && type < OML_LAST_VALUE ? types[type].name : NULL;
}

OmlValueT type_element(OmlValueT type)
{
	return type_name(type) ? types[type].element : OML_UNKNOWN_VALUE;
}

int type_is_long(OmlValueT type)
{
	return type == OML_STRING_VALUE || type == OML_BLOB_VALUE || omlc_is_vector_type(type);
}

static size_t cells(size_t length)
{
	return (length + CELL - 1) & ~(size_t)(CELL - 1);
}

/* Size of a long value, bytes, without its length. */
static size_t long_size(OmlValueT type, const OmlValueU *v)
{
	if (type == OML_STRING_VALUE)
		return v->stringValue.ptr ? v->stringValue.length : 0;
	if (type == OML_BLOB_VALUE)
		return v->blobValue.ptr ? v->blobValue.length : 0;
	return v->vectorValue.ptr ? v->vectorValue.nof_elts * (size_t)CELL : 0;
}

size_t values_size(const OmlValueT *of, int count, const OmlValueU *values)
{
	size_t size = (size_t)count * CELL;

	for (int i = 0; i < count; i++)
		if (type_is_long(of[i]))
			size += cells(long_size(of[i], &values[i]));
	return size;
}

/* A scalar as a cell. */
static uint64_t cell(OmlValueT type, const OmlValueU *v)
{
	uint64_t bits = 0;

	switch (type) {
	case OML_DOUBLE_VALUE:
		memcpy(&bits, &v->doubleValue, sizeof bits);
		break;
	case OML_LONG_VALUE: /* sent as int32, clamped */
		bits = (uint64_t)(int64_t)(v->longValue > INT32_MAX ? INT32_MAX : v->longValue < INT32_MIN ? INT32_MIN : v->longValue);
		break;
	case OML_INT32_VALUE:
		bits = (uint64_t)(int64_t)v->int32Value;
		break;
	case OML_UINT32_VALUE:
		bits = v->uint32Value;
		break;
	case OML_BOOL_VALUE:
		bits = v->boolValue != OMLC_BOOL_FALSE;
		break;
	default: /* 64-bit types have the same representation */
		bits = v->uint64Value;
	}
	return bits;
}

/* An element of a program's vector as a cell. */
static uint64_t element(OmlValueT type, const unsigned char *at, size_t each)
{
	OmlValueU v = {0};

	if (type == OML_BOOL_VALUE) /* whatever the size of bool is */
		return *at != 0;
	memcpy(&v, at, each > sizeof v.uint64Value ? sizeof v.uint64Value : each);
	return cell(type, &v);
}

void values_pack(unsigned char *to, const OmlValueT *of, int count, const OmlValueU *values)
{
	for (int i = 0; i < count; i++) {
		const OmlValueU *v = &values[i];
		uint64_t bits;

		if (!type_is_long(of[i])) {
			bits = cell(of[i], v);
			memcpy(to, &bits, CELL);
			to += CELL;
			continue;
		}
		bits = long_size(of[i], v);
		memcpy(to, &bits, CELL);
		to += CELL;
		if (omlc_is_vector_type(of[i])) {
			OmlValueT type = type_element(of[i]);
			const unsigned char *from = v->vectorValue.ptr;

			for (size_t n = 0; n < bits / CELL; n++) {
				uint64_t one = element(type, from + n * v->vectorValue.elt_sz, v->vectorValue.elt_sz);

				memcpy(to + n * CELL, &one, CELL);
			}
		} else if (bits > 0) {
			memcpy(to, of[i] == OML_STRING_VALUE ? (const void *)v->stringValue.ptr : v->blobValue.ptr, bits);
		}
		to += cells(bits);
	}
}

void values_unpack(const unsigned char *from, const OmlValueT *of, int count, struct value *values)
{
	for (int i = 0; i < count; i++) {
		struct value *v = &values[i];

		v->type = of[i];
		memcpy(&v->natural, from, CELL);
		from += CELL;
		if (!type_is_long(of[i]))
			continue;
		v->bytes = from;
		v->length = omlc_is_vector_type(of[i]) ? v->natural / CELL : v->natural;
		from += cells(v->natural);
	}
}

void value_of(struct value *to, OmlValueT type, const OmlValueU *from)
{
	memset(to, 0, sizeof *to);
	to->type = type;
	if (!type_is_long(type)) {
		to->natural = cell(type, from);
		return;
	}
	to->length = long_size(type, from);
	to->bytes = type == OML_STRING_VALUE ? (const void *)from->stringValue.ptr : from->blobValue.ptr;
}
