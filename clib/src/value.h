/* Values inside the library: packed into records by injecting threads, unpacked by the
 * sending thread. */
#ifndef PILLION_VALUE_H
#define PILLION_VALUE_H

#include <oml2/omlc.h>

/* One value; the memory of strings, blobs and elements is borrowed. */
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

/* Name of a type in schemas; NULL if invalid. */
const char *type_name(OmlValueT type);
/* The type of a vector's elements; for other types, the type itself. */
OmlValueT type_element(OmlValueT type);
/* 1 for types of variable size. */
int type_is_long(OmlValueT type);

/* Size of the packed values of a point, bytes. */
size_t values_size(const OmlValueT *types, int count, const OmlValueU *values);
/* Packs values; to has that size. */
void values_pack(unsigned char *to, const OmlValueT *types, int count, const OmlValueU *values);
/* Unpacks values, which point into the record. */
void values_unpack(const unsigned char *from, const OmlValueT *types, int count, struct value *values);
/* Converts a value of the program without copying memory. Elements of vectors are not
 * unpacked. */
void value_of(struct value *to, OmlValueT type, const OmlValueU *from);

#endif
