/* Values as they travel inside the library: packed into records by the threads that
 * inject, unpacked by the thread that sends. */
#ifndef PILLION_VALUE_H
#define PILLION_VALUE_H

#include <oml2/omlc.h>

/* One value; strings, blobs and elements belong to somebody else. */
struct value {
	OmlValueT type;
	union {
		int64_t integer;    /* int32, int64, long */
		uint64_t natural;   /* uint32, uint64, guid, bool (0 or 1), elements of a vector */
		double real;
	};
	const void *bytes; /* string, blob; the elements of a vector, 8 bytes each */
	size_t length;
};

/* A field of a stream. */
struct field {
	char *name;
	OmlValueT type;
};

/* Name of a type in schemas; NULL for what is none. */
const char *type_name(OmlValueT type);
/* The type of a vector's elements; of others the type itself. */
OmlValueT type_element(OmlValueT type);
/* 1 where a value's size is not known from its type. */
int type_is_long(OmlValueT type);

/* Bytes that the values of a point take in a record. */
size_t values_size(const OmlValueT *types, int count, const OmlValueU *values);
/* Writes them; to has that many bytes. */
void values_pack(unsigned char *to, const OmlValueT *types, int count, const OmlValueU *values);
/* Reads them; what they point to is in the record. */
void values_unpack(const unsigned char *from, const OmlValueT *types, int count, struct value *values);
/* Makes one value of a program's, without copying what it points to. Elements of
 * vectors are not unpacked: room for them is the caller's. */
void value_of(struct value *to, OmlValueT type, const OmlValueU *from);

#endif
