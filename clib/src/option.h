/* What the user asked for: on the command line, or in the environment. */
#ifndef PILLION_OPTION_H
#define PILLION_OPTION_H

#include "library.h"

/* Reads the environment and then argv, out of which it takes what is its own. 0, 1
 * when measurement is switched off, or -1 with a message. */
int options_read(struct options *o, const char *application, int *argc, const char **argv, o_log_fn log);
/* 0, or -1 with a message: what cannot be told to a collector. */
int options_check(const struct options *o);
void options_free(struct options *o);
/* Where messages go: a function of the program, a file, or standard error. */
int log_to(const char *path, o_log_fn function);
void log_close(void);

#endif
