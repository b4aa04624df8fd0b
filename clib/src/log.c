#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

#include "option.h"

static FILE *file; /* NULL: standard error */
static _Atomic int level = O_LOG_INFO;

static const char *const words[] = {"ERROR", "WARN", "INFO", "DEBUG", "DEBUG2", "DEBUG3", "DEBUG4"};

static o_log_fn custom;

static void write_log(int l, const char *line)
{
	FILE *to = file ? file : stderr;
	int word = l - O_LOG_ERROR;

	if (file) {
		time_t now = time(NULL);
		struct tm t;
		char text[32];

		strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S ", localtime_r(&now, &t));
		fputs(text, to);
	}
	fprintf(to, "%s\t%s", words[word < 0 ? 0 : word > 6 ? 6 : word], line);
	fflush(to);
}

void o_log(int l, const char *format, ...)
{
	va_list values;
	char line[1024];

	if (l > level)
		return;
	va_start(values, format);
	vsnprintf(line, sizeof line, format, values);
	va_end(values);
	if (custom)
		custom(l, "%s", line);
	else
		write_log(l, line);
}

int o_set_log_level(int l)
{
	return atomic_exchange(&level, l);
}

int log_to(const char *path, o_log_fn function)
{
	custom = function;
	if (!path || (path[0] == '-' && path[1] == '\0'))
		return 0;
	file = fopen(path, "ae");
	return file ? 0 : -1;
}

void log_close(void)
{
	if (file)
		fclose(file);
	file = NULL;
}
