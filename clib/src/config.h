/* The configuration in XML: <omlc domain id><collect url encoding><stream mp ...>. */
#ifndef PILLION_CONFIG_H
#define PILLION_CONFIG_H

#include "library.h"

/* Reads the file and opens its collectors; 0, or -1 with a message that names the line. */
int config_read(const char *path);
/* Gives a point the streams that the file asks for. */
int config_connect(struct OmlMP *point);
/* Warns of streams of points that there are not. */
void config_check(void);
void config_free(void);

#endif
