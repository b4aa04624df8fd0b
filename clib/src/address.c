#include "address.h"

#include <netdb.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct address {
	char *host, *port;
	struct addrinfo *list;
	int failed;
	_Atomic int ready;
	_Atomic int holders; /* the collector and the resolver thread */
};

void address_drop(struct address *a)
{
	if (atomic_fetch_sub(&a->holders, 1) > 1)
		return;
	if (a->list)
		freeaddrinfo(a->list);
	free(a->host);
	free(a->port);
	free(a);
}

static void look_up(struct address *a, int flags)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = flags};

	a->failed = getaddrinfo(a->host, a->port, &hints, &a->list);
	if (a->failed)
		a->list = NULL;
}

static void *run(void *address)
{
	struct address *a = address;

	look_up(a, 0);
	atomic_store(&a->ready, 1);
	address_drop(a);
	return NULL;
}

/* Starts the resolver thread, which inherits the blocked signals; 0 or -1. */
static int begin(struct address *a)
{
	pthread_attr_t attributes;
	pthread_t thread;
	int failed;

	if (pthread_attr_init(&attributes) != 0)
		return -1;
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	atomic_store(&a->holders, 2);
	failed = pthread_create(&thread, &attributes, run, a);
	pthread_attr_destroy(&attributes);
	if (failed)
		atomic_store(&a->holders, 1);
	return failed ? -1 : 0;
}

struct address *address_find(const char *host, const char *port)
{
	struct address *a = calloc(1, sizeof *a);

	if (!a)
		return NULL;
	atomic_init(&a->holders, 1);
	a->host = strdup(host);
	a->port = strdup(port);
	if (a->host && a->port) {
		look_up(a, AI_NUMERICHOST | AI_NUMERICSERV); /* numeric: no lookup */
		if (!a->failed) {
			atomic_store(&a->ready, 1);
			return a;
		}
		if (begin(a) == 0)
			return a;
	}
	address_drop(a);
	return NULL;
}

int address_ready(struct address *a, const struct addrinfo **list, const char **why)
{
	if (!atomic_load(&a->ready))
		return 0;
	*list = a->list;
	*why = a->failed ? gai_strerror(a->failed) : "";
	return a->list ? 1 : -1;
}
