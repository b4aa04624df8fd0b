/* The configuration in XML: <omlc domain id><collect url encoding><stream mp ...>. */
#ifndef PILLION_CONFIG_H
#define PILLION_CONFIG_H

#include "library.h"

/* Reads the file and opens its collectors; 0, or -1 with a message that names the line. */
int config_read(const char *path);
/* Adds the streams of the file to a point. */
int config_connect(struct OmlMP *point);
/* Warns of streams of unknown points. */
void config_check(void);
void config_free(void);

#endif
