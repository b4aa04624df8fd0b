/* Numbers as text, whatever point the locale has. */
#ifndef PILLION_NUMBER_H
#define PILLION_NUMBER_H

#include <stdint.h>

#define NUMBER_MAX 32 /* bytes of a number as text, at most */

/* Write a number and return where it ends. */
unsigned char *number_natural(unsigned char *to, uint64_t n);
unsigned char *number_integer(unsigned char *to, int64_t n);
/* Reads back as the same number. */
unsigned char *number_real(unsigned char *to, double x);

/* Reads a text that is a number and nothing else; 0 or -1. */
int number_read(const char *text, double *to);

#endif
