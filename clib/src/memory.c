#include <malloc.h>
#include <stdlib.h>

#include <oml2/omlc.h>

void *oml_malloc(size_t size)
{
	return malloc(size);
}

void oml_free(void *ptr)
{
	free(ptr);
}

size_t oml_malloc_usable_size(void *ptr)
{
	return malloc_usable_size(ptr);
}

int pillion_keep(void **ptr, size_t *size, const void *from, size_t length, size_t room)
{
	if (room > *size || !*ptr) {
		void *larger = malloc(room ? room : 1);

		if (!larger)
			return -1;
		memmove(larger, from, length);
		free(*ptr);
		*ptr = larger;
		*size = room ? room : 1;
		return 0;
	}
	memmove(*ptr, from, length);
	return 0;
}
