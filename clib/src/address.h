/* The addresses of a host. Names are resolved in a separate thread, since that can
 * block for long. */
#ifndef PILLION_ADDRESS_H
#define PILLION_ADDRESS_H

struct addrinfo;

struct address;

/* Starts the lookup; NULL if out of memory or threads. */
struct address *address_find(const char *host, const char *port);
/* 1 when resolved, 0 while pending, -1 on an error, which why describes. The list is
 * valid as long as the address. */
int address_ready(struct address *address, const struct addrinfo **list, const char **why);
/* Releases it; a pending lookup ends by itself. */
void address_drop(struct address *address);

#endif
