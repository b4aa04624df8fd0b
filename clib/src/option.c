#include "option.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "number.h"
#include "window.h"

#define RING_DEFAULT (16u << 20)
#define KEPT_DEFAULT (64u << 20)
#define PATIENCE_DEFAULT 5.0 /* s */
#define PREFIX "--oml-"

static const char help[] =
	"OML options:\n"
	"  --oml-id NAME          name of this sender (environment: OML_NAME)\n"
	"  --oml-domain NAME      name of the experiment (OML_DOMAIN, OML_EXP_ID)\n"
	"  --oml-collect URI      collector: [tcp:]host[:port], file:path, file:-, flush:path (OML_COLLECT, OML_SERVER)\n"
	"  --oml-config FILE      collectors and filters in XML (OML_CONFIG)\n"
	"  --oml-samples N        one tuple per N samples\n"
	"  --oml-interval SECONDS one tuple per interval\n"
	"  --oml-text             send as text; the default for files\n"
	"  --oml-binary           send in binary; the default for servers\n"
	"  --oml-bufsize BYTES    buffer for an unreachable collector; default 64 MiB\n"
	"  --oml-ring BYTES       buffer between the program and the sending thread; default 16 MiB\n"
	"  --oml-close SECONDS    timeout for sending when the program ends; default 5\n"
	"  --oml-log-file FILE    log file; default standard error\n"
	"  --oml-log-level N      -2 errors, -1 warnings, 0 (default) information, 1 to 4 more\n"
	"  --oml-noop             measure nothing\n"
	"  --oml-list-filters     print the filters\n"
	"  --oml-help             print this help\n"
	"Old names: --oml-exp-id (--oml-domain), --oml-server (--oml-collect), --oml-file FILE (--oml-collect file:FILE)\n";

void options_replace(char **to, const char *text)
{
	if (!text)
		return;
	free(*to);
	*to = strdup(text);
}

enum kind { TEXT, FILE_PATH, COUNT, BYTES, SECONDS, LOG_FILE, LOG_LEVEL, IGNORED };

/* Options with a value, where it is stored, and the range of numbers. */
static const struct option {
	const char *name;
	enum kind kind;
	size_t at;
	double least, most;
} options[] = {
	{"id", TEXT, offsetof(struct options, id), 0, 0},
	{"domain", TEXT, offsetof(struct options, domain), 0, 0},
	{"exp-id", TEXT, offsetof(struct options, domain), 0, 0},
	{"collect", TEXT, offsetof(struct options, collect), 0, 0},
	{"server", TEXT, offsetof(struct options, collect), 0, 0},
	{"file", FILE_PATH, offsetof(struct options, collect), 0, 0},
	{"config", TEXT, offsetof(struct options, config), 0, 0},
	{"samples", COUNT, offsetof(struct options, samples), 1, 1e9},
	{"interval", SECONDS, offsetof(struct options, interval), 0.001, 1e9},
	{"bufsize", BYTES, offsetof(struct options, kept), 0, 1e12},
	{"ring", BYTES, offsetof(struct options, ring), 4096, 1 << 30},
	{"close", SECONDS, offsetof(struct options, patience), 0, 3600},
	{"log-file", LOG_FILE, 0, 0, 0},
	{"log-level", LOG_LEVEL, 0, -2, 4},
	{"instr-interval", IGNORED, 0, 0, 0}, /* statistics of the original library */
};

static const struct option *find(const char *name)
{
	for (size_t i = 0; i < sizeof options / sizeof *options; i++)
		if (strcmp(name, options[i].name) == 0)
			return &options[i];
	return NULL;
}

/* Sets an option; 0, or -1 with a message. */
static int set(struct options *o, const struct option *option, const char *value, const char **log_file)
{
	void *to = (char *)o + option->at;
	char *uri;
	double x = 0;

	if (option->most > 0 && (number_read(value, &x) < 0 || !(x >= option->least && x <= option->most))) {
		logerror("oml: --oml-%s %s: use a number from %g to %g\n", option->name, value, option->least, option->most);
		return -1;
	}
	switch (option->kind) {
	case TEXT:
		options_replace(to, value);
		break;
	case FILE_PATH:
		if (asprintf(&uri, "file:%s", value) < 0)
			return -1;
		options_replace(to, uri);
		free(uri);
		break;
	case COUNT:
		*(int *)to = (int)x;
		break;
	case BYTES: /* programs pass a --oml-bufsize that sufficed for the original library */
		*(size_t *)to = x < 1 << 20 && to == &o->kept ? 1 << 20 : (size_t)x;
		break;
	case SECONDS:
		*(double *)to = x;
		break;
	case LOG_FILE:
		*log_file = value;
		break;
	case LOG_LEVEL:
		o_set_log_level((int)x);
		break;
	case IGNORED:
		break;
	}
	return 0;
}

/* Prints and exits, as for --help. */
static void print_and_exit(const char *name)
{
	if (strcmp(name, "help") == 0)
		fputs(help, stdout);
	else
		filters_list();
	exit(0);
}

/* Sets an option without a value; 0, or -1 with a message. */
static int set_flag(struct options *o, const char *name)
{
	if (strcmp(name, "text") == 0) {
		o->content = CONTENT_TEXT;
	} else if (strcmp(name, "binary") == 0) {
		o->content = CONTENT_BINARY;
	} else if (strcmp(name, "noop") == 0) {
		o->noop = 1;
	} else if (strcmp(name, "help") == 0 || strcmp(name, "list-filters") == 0) {
		print_and_exit(name);
	} else {
		logerror("oml: unknown option --oml-%s (see --oml-help)\n", name);
		return -1;
	}
	return 0;
}

/* Parses the option at argv[*i], and its value; 0, or -1 with a message. */
static int parse(struct options *o, int *i, int argc, const char **argv, const char **log_file)
{
	const char *word = argv[*i] + strlen(PREFIX), *equals = strchr(word, '=');
	const struct option *option;
	char name[32];

	snprintf(name, sizeof name, "%.*s", equals ? (int)(equals - word) : (int)strlen(word), word);
	option = find(name);
	if (!option) {
		if (!equals)
			return set_flag(o, name);
		logerror("oml: --oml-%s: unknown option, or it takes no value (see --oml-help)\n", name);
		return -1;
	}
	if (equals)
		return set(o, option, equals + 1, log_file);
	if (*i + 1 >= argc || !argv[*i + 1]) {
		logerror("oml: --oml-%s requires a value\n", name);
		return -1;
	}
	return set(o, option, argv[++*i], log_file);
}

/* Parses options and removes them from argv, also after an invalid one. Both --oml-id
 * NAME and --oml-id=NAME are accepted. */
static int parse_all(struct options *o, int *argc, const char **argv, const char **log_file)
{
	int kept = 1, count = *argc, failed = 0;

	for (int i = 1; i < count && argv[i]; i++) {
		if (strcmp(argv[i], "--") == 0) { /* the rest is the program's */
			while (i < count)
				argv[kept++] = argv[i++];
			break;
		}
		if (strncmp(argv[i], PREFIX, strlen(PREFIX)) == 0)
			failed |= parse(o, &i, count, argv, log_file);
		else
			argv[kept++] = argv[i];
	}
	if (kept < count) {
		*argc = kept;
		argv[kept] = NULL;
	}
	return failed;
}

static const char *environment(const char *name, const char *old)
{
	const char *value = getenv(name);

	return value || !old ? value : getenv(old);
}

/* The file name of a path. */
static const char *file_name(const char *path)
{
	const char *slash = path ? strrchr(path, '/') : NULL;

	return slash ? slash + 1 : path;
}

/* A line of the header cannot contain control characters. */
static int is_line(const char *text)
{
	for (; text && *text; text++)
		if ((unsigned char)*text < ' ' || *text == 0x7F)
			return 0;
	return 1;
}

int options_check(const struct options *o)
{
	if (is_line(o->id) && is_line(o->domain))
		return 0;
	logerror("oml: control character in %s\n", is_line(o->id) ? "domain" : "id");
	return -1;
}

int options_read(struct options *o, const char *application, int *argc, const char **argv, o_log_fn log)
{
	const char *log_file = NULL;

	log_to(NULL, log);
	if (!application || !valid_name(file_name(application))) {
		logerror("oml: omlc_init: invalid application name '%s': use letters, digits and _\n", application ? application : "");
		return -1;
	}
	*o = (struct options){.content = -1, .ring = RING_DEFAULT, .kept = KEPT_DEFAULT, .patience = PATIENCE_DEFAULT};
	options_replace(&o->application, file_name(application));
	options_replace(&o->id, environment("OML_NAME", NULL));
	options_replace(&o->domain, environment("OML_DOMAIN", "OML_EXP_ID"));
	options_replace(&o->config, environment("OML_CONFIG", NULL));
	options_replace(&o->collect, environment("OML_COLLECT", "OML_SERVER"));
	if (argc && argv && parse_all(o, argc, argv, &log_file) < 0)
		return -1;
	if (log_file && log_to(log_file, log) < 0) {
		logerror("oml: open log file %s: %s\n", log_file, strerror(errno));
		return -1;
	}
	if (o->noop)
		return 1;
	if (o->samples > 0 && o->interval > 0) {
		logerror("oml: --oml-samples and --oml-interval are mutually exclusive\n");
		return -1;
	}
	if (options_check(o) < 0)
		return -1;
	if (o->config)
		return 0; /* it has the rest */
	if (!o->id || !o->domain || !o->collect) {
		logerror("oml: %s is required; measurement is disabled\n",
			 !o->id ? "--oml-id" : !o->domain ? "--oml-domain" : "--oml-collect");
		return -1;
	}
	return 0;
}

void options_free(struct options *o)
{
	free(o->application);
	free(o->id);
	free(o->domain);
	free(o->collect);
	free(o->config);
	memset(o, 0, sizeof *o);
}
