/* What a process that answers a query may do. See confine.c. */
#ifndef PILLION_CONFINE_H
#define PILLION_CONFINE_H

#include <stdint.h>

/* The name by which a process is started to answer a query, followed by the number of
 * processors that it may use. */
#define CONFINED_NAME "pillion-query"

/* Whether files can be created in the working directory. */
int confined_can_spill(void);

/* Limits the writable memory to bytes, what the process already uses included. Returns
 * the bytes that are left, or -1. */
int64_t confine_memory(int64_t bytes);

#endif
