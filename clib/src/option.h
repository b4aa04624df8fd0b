/* Options from the command line or the environment. */
#ifndef PILLION_OPTION_H
#define PILLION_OPTION_H

#include "library.h"

/* Reads the environment and then argv, from which it removes its options. 0, 1 if
 * measurement is disabled, or -1 with a message. */
int options_read(struct options *o, const char *application, int *argc, const char **argv, o_log_fn log);
/* 0, or -1 with a message: names that cannot be sent to a collector. */
int options_check(const struct options *o);
void options_free(struct options *o);
/* Replaces a text by a copy of another, unless that is NULL. */
void options_replace(char **to, const char *text);
/* Sets the destination of log messages: a function, a file, or standard error. */
int log_to(const char *path, o_log_fn function);
void log_close(void);

#endif
