// Package seccomp limits the system calls of a process to a list (seccomp(2)), which the caller chooses.
//
// Conditions test the lower 32 bits of an argument, since the kernel ignores the upper bits of an int. Libraries that
// compare 64 bits do not recognise SOL_SOCKET as the level of setsockopt(2) if a higher bit is set, too.
package seccomp
