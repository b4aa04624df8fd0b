/*
 * Confinement of the process that answers a query.
 *
 * What concerns the whole process is set before any other code of it runs, DuckDB's
 * initializers and Go's threads included: Landlock applies only to threads created
 * afterwards. System calls are limited once the database is open, by limitCalls.
 */
#define _GNU_SOURCE
#include "confine.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NOBODY 65534
#define NICE 10
#define FILES 64
#define STACK (1 << 20)
#define RESERVED (16 << 20) /* of addresses: stacks of threads, gaps */

/* linux/landlock.h of kernel headers 5.13, and what later versions added: system calls
 * and structures have fixed numbers and layouts on all architectures. */
#define LANDLOCK_CREATE_RULESET 444
#define LANDLOCK_ADD_RULE 445
#define LANDLOCK_RESTRICT_SELF 446
#define LANDLOCK_VERSION 1
#define LANDLOCK_PATH_BENEATH 1
#define LANDLOCK_ALL_1 ((1ULL << 13) - 1)
#define LANDLOCK_REFER (1ULL << 13)
#define LANDLOCK_TRUNCATE (1ULL << 14)
#define LANDLOCK_READ (1ULL << 2)
#define LANDLOCK_SPILL (1ULL << 1 | 1ULL << 2 | 1ULL << 3 | 1ULL << 5 | 1ULL << 8) /* write, read, list, remove, create files */
#define LANDLOCK_BIND_CONNECT 3ULL

struct ruleset {
	uint64_t files, net;
};

struct path_rule {
	uint64_t allowed;
	int32_t parent;
} __attribute__((packed));

static int statm = -1;
static int spill;

int confined_can_spill(void) { return spill; }

static int limit(int resource, rlim_t most)
{
	struct rlimit l = {most, most};

	return setrlimit(resource, &l);
}

/* Runs on as many processors as allowed, which differ between processes. */
static void limit_processors(int most)
{
	cpu_set_t all, mine;
	int count, skipped, taken = 0;

	if (sched_getaffinity(0, sizeof(all), &all) || (count = CPU_COUNT(&all)) <= most)
		return;
	CPU_ZERO(&mine);
	skipped = getpid() % count;
	for (int i = 0; taken < most; i = (i + 1) % CPU_SETSIZE)
		if (CPU_ISSET(i, &all) && skipped-- <= 0) {
			CPU_SET(i, &mine);
			taken++;
		}
	sched_setaffinity(0, sizeof(mine), &mine);
}

static int allow(int rules, const char *path, uint64_t what)
{
	struct path_rule r = {what, open(path, O_PATH | O_CLOEXEC)};
	int error = r.parent < 0 || syscall(LANDLOCK_ADD_RULE, rules, LANDLOCK_PATH_BENEATH, &r, 0);

	close(r.parent);
	return error;
}

/* Leaves nothing of the file system but the working directory and the limits that DuckDB
 * reads when it starts. Without Landlock (Linux 5.13), limitCalls rejects opening any
 * file. */
static void limit_files(void)
{
	long version = syscall(LANDLOCK_CREATE_RULESET, NULL, 0, LANDLOCK_VERSION);
	struct ruleset r = {LANDLOCK_ALL_1, 0};
	uint64_t here = LANDLOCK_SPILL;
	int rules;

	if (version < 1)
		return;
	if (version >= 2)
		r.files |= LANDLOCK_REFER;
	if (version >= 3) {
		r.files |= LANDLOCK_TRUNCATE;
		here |= LANDLOCK_TRUNCATE;
	}
	if (version >= 4)
		r.net = LANDLOCK_BIND_CONNECT;
	rules = syscall(LANDLOCK_CREATE_RULESET, &r, version >= 4 ? sizeof(r) : sizeof(r.files), 0);
	allow(rules, "/proc/self/cgroup", LANDLOCK_READ);
	allow(rules, "/sys/fs/cgroup", LANDLOCK_READ);
	allow(rules, "/proc/sys/vm/overcommit_memory", LANDLOCK_READ);
	spill = rules >= 0 && !allow(rules, ".", here) && !syscall(LANDLOCK_RESTRICT_SELF, rules, 0);
	close(rules);
}

static void write_file(const char *path, const char *text)
{
	int file = open(path, O_WRONLY | O_CLOEXEC);

	if (file >= 0 && write(file, text, strlen(text)) < 0)
		errno = 0; /* an older kernel: the process is less likely to be killed first */
	close(file);
}

__attribute__((constructor(101))) static void confine(int argc, char **argv)
{
	pthread_attr_t threads;

	if (argc != 2 || strcmp(argv[0], CONFINED_NAME))
		return;
	syscall(SYS_close_range, 3U, ~0U, 0U);
	limit(RLIMIT_CORE, 0);
	limit(RLIMIT_NOFILE, FILES);
	limit(RLIMIT_MEMLOCK, 0);
	limit(RLIMIT_MSGQUEUE, 0);
	setpriority(PRIO_PROCESS, 0, NICE);
	write_file("/proc/self/oom_score_adj", "1000");
	statm = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
	limit_processors(atoi(argv[1]) > 0 ? atoi(argv[1]) : 1);
	pthread_attr_init(&threads);
	pthread_attr_setstacksize(&threads, STACK);
	pthread_setattr_default_np(&threads);
	pthread_attr_destroy(&threads);
	if (!geteuid() && (setgroups(0, NULL) || setresgid(NOBODY, NOBODY, NOBODY) || setresuid(NOBODY, NOBODY, NOBODY)))
		errno = 0; /* a user namespace without nobody: its root has no right outside */
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* again: changing the user cleared it */
	prctl(PR_SET_DUMPABLE, 0);
	mallopt(M_ARENA_MAX, 1); /* each reserves addresses */
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		_exit(126);
	limit_files();
}

int64_t confine_memory(int64_t bytes)
{
	char text[128] = "";
	long size = 0, resident = 0, shared = 0, data = 0, page = sysconf(_SC_PAGESIZE);
	int64_t left;

	if (pread(statm, text, sizeof(text) - 1, 0) <= 0 || sscanf(text, "%ld %ld %ld %*d %*d %ld", &size, &resident, &shared, &data) != 4)
		return -1;
	left = bytes - (resident - shared) * page;
	if (left < bytes / 4)
		left = bytes / 4;
	/* Mapping memory over a reserved range escapes RLIMIT_DATA. */
	if (limit(RLIMIT_DATA, data * page + left) || limit(RLIMIT_AS, size * page + left + RESERVED))
		return -1;
	return left;
}
