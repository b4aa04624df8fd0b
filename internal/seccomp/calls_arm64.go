package seccomp

var older []uint32
