#include "option.h"

#include <errno.h>
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
	"  --oml-id NAME          name of this source (environment: OML_NAME)\n"
	"  --oml-domain NAME      name of the experiment (OML_DOMAIN, OML_EXP_ID)\n"
	"  --oml-collect URI      where samples go: [tcp:]host[:port], file:path, file:-, flush:path (OML_COLLECT, OML_SERVER)\n"
	"  --oml-config FILE      collectors and filters in XML (OML_CONFIG)\n"
	"  --oml-samples N        one tuple for N samples\n"
	"  --oml-interval SECONDS one tuple for each length of time\n"
	"  --oml-text             send as text; the default for files\n"
	"  --oml-binary           send in binary; the default for servers\n"
	"  --oml-bufsize BYTES    what may wait for a collector that is away; default 64 MiB\n"
	"  --oml-ring BYTES       what may wait between two turns of the thread that sends; default 16 MiB\n"
	"  --oml-close SECONDS    how long the end of the program may take; default 5\n"
	"  --oml-log-file FILE    where messages go; default standard error\n"
	"  --oml-log-level N      -2 errors, -1 warnings, 0 (default) information, 1 to 4 more\n"
	"  --oml-noop             measure nothing\n"
	"  --oml-list-filters     print the filters\n"
	"  --oml-help             print this\n"
	"Old names: --oml-exp-id (--oml-domain), --oml-server (--oml-collect), --oml-file FILE (--oml-collect file:FILE)\n";

static void keep(char **to, const char *text)
{
	if (!text)
		return;
	free(*to);
	*to = strdup(text);
}

static void keep_file(char **to, const char *path)
{
	struct buffer uri = {0};

	buffer_print(&uri, "file:%s", path);
	keep(to, (const char *)uri.bytes);
	buffer_free(&uri);
}

static int number(const char *name, const char *text, double least, double most, double *to)
{
	double x;

	if (number_read(text, &x) < 0 || !(x >= least && x <= most)) {
		logerror("oml: %s %s: use a number from %g to %g\n", name, text, least, most);
		return -1;
	}
	*to = x;
	return 0;
}

/* Takes an option with its value; 0, or -1 with a message. */
static int take(struct options *o, const char *name, const char *value, const char **log_file)
{
	double x = 0;

	if (strcmp(name, "id") == 0)
		keep(&o->id, value);
	else if (strcmp(name, "domain") == 0 || strcmp(name, "exp-id") == 0)
		keep(&o->domain, value);
	else if (strcmp(name, "collect") == 0 || strcmp(name, "server") == 0)
		keep(&o->collect, value);
	else if (strcmp(name, "file") == 0)
		keep_file(&o->collect, value);
	else if (strcmp(name, "config") == 0)
		keep(&o->config, value);
	else if (strcmp(name, "log-file") == 0)
		*log_file = value;
	else if (strcmp(name, "log-level") == 0 && number("--oml-log-level", value, -2, 4, &x) == 0)
		o_set_log_level((int)x);
	else if (strcmp(name, "samples") == 0 && number("--oml-samples", value, 1, 1e9, &x) == 0)
		o->samples = (int)x;
	else if (strcmp(name, "interval") == 0)
		return number("--oml-interval", value, 0.001, 1e9, &o->interval);
	else if (strcmp(name, "bufsize") == 0 && number("--oml-bufsize", value, 0, 1e12, &x) == 0)
		o->kept = x < 1 << 20 ? 1 << 20 : (size_t)x; /* programs ask for what was enough for the old library */
	else if (strcmp(name, "ring") == 0 && number("--oml-ring", value, 4096, 1 << 30, &x) == 0)
		o->ring = (size_t)x;
	else if (strcmp(name, "close") == 0)
		return number("--oml-close", value, 0, 3600, &o->patience);
	else if (strcmp(name, "instr-interval") != 0) /* of the old library's own statistics */
		return -1;
	return 0;
}

static int takes_value(const char *name)
{
	static const char *const names[] = {"id", "domain", "exp-id", "collect", "server", "file", "config", "log-file", "log-level",
					    "samples", "interval", "bufsize", "ring", "close", "instr-interval"};

	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (strcmp(name, names[i]) == 0)
			return 1;
	return 0;
}

/* Ends the program after something was printed, as for --help. */
static void print_and_end(const char *name)
{
	if (strcmp(name, "help") == 0)
		fputs(help, stdout);
	else
		filters_list();
	exit(0);
}

/* A word without a value; 0, or -1 when there is none such. */
static int take_word(struct options *o, const char *name)
{
	if (strcmp(name, "text") == 0) {
		o->content = CONTENT_TEXT;
	} else if (strcmp(name, "binary") == 0) {
		o->content = CONTENT_BINARY;
	} else if (strcmp(name, "noop") == 0) {
		o->noop = 1;
	} else if (strcmp(name, "help") == 0 || strcmp(name, "list-filters") == 0) {
		print_and_end(name);
	} else {
		logerror("oml: there is no option --oml-%s (see --oml-help)\n", name);
		return -1;
	}
	return 0;
}

/* Takes the option at argv[*i], and its value; 0, or -1 with a message. */
static int take_one(struct options *o, int *i, int argc, const char **argv, const char **log_file)
{
	const char *word = argv[*i] + strlen(PREFIX), *equals = strchr(word, '=');
	char name[32];

	snprintf(name, sizeof name, "%.*s", equals ? (int)(equals - word) : (int)strlen(word), word);
	if (!takes_value(name)) {
		if (!equals)
			return take_word(o, name);
		logerror("oml: --oml-%s: there is no such option, or it takes no value (see --oml-help)\n", name);
		return -1;
	}
	if (equals)
		return take(o, name, equals + 1, log_file);
	if (*i + 1 >= argc || !argv[*i + 1]) {
		logerror("oml: --oml-%s needs a value\n", name);
		return -1;
	}
	return take(o, name, argv[++*i], log_file);
}

/* Takes the options out of argv, also behind one that is wrong. Both --oml-id NAME
 * and --oml-id=NAME do. */
static int take_all(struct options *o, int *argc, const char **argv, const char **log_file)
{
	int kept = 1, count = *argc, failed = 0;

	for (int i = 1; i < count && argv[i]; i++) {
		if (strcmp(argv[i], "--") == 0) { /* what follows is the program's */
			while (i < count)
				argv[kept++] = argv[i++];
			break;
		}
		if (strncmp(argv[i], PREFIX, strlen(PREFIX)) == 0)
			failed |= take_one(o, &i, count, argv, log_file);
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

/* The name of a program without its path. */
static const char *last_word(const char *path)
{
	const char *slash = path ? strrchr(path, '/') : NULL;

	return slash ? slash + 1 : path;
}

/* Control characters cannot go into a line of the header. */
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
	logerror("oml: the %s holds a control character\n", is_line(o->id) ? "domain" : "id");
	return -1;
}

int options_read(struct options *o, const char *application, int *argc, const char **argv, o_log_fn log)
{
	const char *log_file = NULL;

	log_to(NULL, log);
	if (!application || !valid_name(last_word(application))) {
		logerror("oml: omlc_init: '%s' is no name of letters, digits and _ for an application\n", application ? application : "");
		return -1;
	}
	*o = (struct options){.content = -1, .ring = RING_DEFAULT, .kept = KEPT_DEFAULT, .patience = PATIENCE_DEFAULT};
	keep(&o->application, last_word(application));
	keep(&o->id, environment("OML_NAME", NULL));
	keep(&o->domain, environment("OML_DOMAIN", "OML_EXP_ID"));
	keep(&o->config, environment("OML_CONFIG", NULL));
	keep(&o->collect, environment("OML_COLLECT", "OML_SERVER"));
	if (argc && argv && take_all(o, argc, argv, &log_file) < 0)
		return -1;
	if (log_file && log_to(log_file, log) < 0) {
		logerror("oml: open log file %s: %s\n", log_file, strerror(errno));
		return -1;
	}
	if (o->noop)
		return 1;
	if (o->samples > 0 && o->interval > 0) {
		logerror("oml: --oml-samples and --oml-interval exclude each other\n");
		return -1;
	}
	if (options_check(o) < 0)
		return -1;
	if (o->config)
		return 0; /* it names the rest */
	if (!o->id || !o->domain || !o->collect) {
		logerror("oml: %s is missing; nothing is measured\n",
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
