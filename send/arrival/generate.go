package arrival

//go:generate go tool bpf2go -cc clang-16 -strip llvm-strip-16 -target bpfel -output-stem arrival arrival arrival_bpf.c -- -O2 -g -Wall -Werror -mcpu=v3 -I/usr/include/x86_64-linux-gnu
