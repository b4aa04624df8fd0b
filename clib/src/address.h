/* The addresses of a host. Names are looked up in a thread of their own: that can
 * take long, and nothing else may wait for it. */
#ifndef PILLION_ADDRESS_H
#define PILLION_ADDRESS_H

struct addrinfo;

struct address;

/* Begins to look up; NULL without memory or threads. */
struct address *address_find(const char *host, const char *port);
/* 1 when they are known, 0 while they are looked up, -1 when there are none; then
 * why says what is wrong. The list lives as long as the address. */
int address_ready(struct address *address, const struct addrinfo **list, const char **why);
/* Lets go; a thread that still looks up ends on its own. */
void address_drop(struct address *address);

#endif
