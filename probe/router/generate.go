package router

//go:generate go tool bpf2go -cc clang-16 -strip llvm-strip-16 -target bpfel -type packet -type tally -type extremes -type bucket -type pair -type drop_key -type record -type queue_sum -type queue_size -type processor -type pause -type pause_sum -output-stem router router router_bpf.c -- -O2 -g -Wall -Werror -mcpu=v3 -I/usr/include/x86_64-linux-gnu
