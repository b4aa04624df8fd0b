/* The logging interface of OML. */
#ifndef O_LOG_H_
#define O_LOG_H_

#ifdef __cplusplus
extern "C" {
#endif

#if defined PILLION_LIBRARY && defined __GNUC__
#pragma GCC visibility push(default)
#endif

enum {
	O_LOG_ERROR = -2,
	O_LOG_WARN = -1,
	O_LOG_INFO = 0,
	O_LOG_DEBUG = 1,
	O_LOG_DEBUG2 = 2,
	O_LOG_DEBUG3 = 3,
	O_LOG_DEBUG4 = 4
};

/* A log function: like printf, with a level. */
typedef void (*o_log_fn)(int level, const char *format, ...);

/* Writes a message to the library's log. */
void o_log(int level, const char *format, ...)
#ifdef __GNUC__
	__attribute__((format(printf, 2, 3)))
#endif
	;

/* Sets the maximum level of messages; returns the previous one. */
int o_set_log_level(int level);

#define logerror(...) o_log(O_LOG_ERROR, __VA_ARGS__)
#define logwarn(...) o_log(O_LOG_WARN, __VA_ARGS__)
#define loginfo(...) o_log(O_LOG_INFO, __VA_ARGS__)
#define logdebug(...) o_log(O_LOG_DEBUG, __VA_ARGS__)
#define logdebug2(...) o_log(O_LOG_DEBUG2, __VA_ARGS__)
#define logdebug3(...) o_log(O_LOG_DEBUG3, __VA_ARGS__)

#if defined PILLION_LIBRARY && defined __GNUC__
#pragma GCC visibility pop
#endif

#ifdef __cplusplus
}
#endif

#endif
