/* For libFuzzer: any text is read, or refused with a line. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "xml.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	char *text = malloc(length + 1), fault[128] = "";
	struct xml_element *root;

	memcpy(text, bytes, length);
	text[length] = '\0';
	root = xml_parse(text, fault, sizeof fault);
	if (root)
		xml_free(root);
	else if (strncmp(fault, "line ", 5) != 0)
		abort();
	free(text);
	return 0;
}
