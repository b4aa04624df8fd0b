/* Numbers as text, independent of the locale. */
#ifndef PILLION_NUMBER_H
#define PILLION_NUMBER_H

#include <stdint.h>

#define NUMBER_MAX 32 /* maximum length of a number as text, bytes */

/* Write a number and return its end. */
unsigned char *number_natural(unsigned char *to, uint64_t n);
unsigned char *number_integer(unsigned char *to, int64_t n);
/* The shortest text that parses as the same number. */
unsigned char *number_real(unsigned char *to, double x);

/* Parses a number; 0 or -1. */
int number_read(const char *text, double *to);

#endif
