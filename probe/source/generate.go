package source

//go:generate go generate ../module
//go:generate go tool bpf2go -cc clang-16 -strip llvm-strip-16 -target bpfel -type outcome -type span -type tally -type flow_key -type numbering -type path -type path_limit -type sending -type slot -type mark_key -type encoded_path -type validation -output-stem source source source.c -- -O2 -g -Wall -Werror -mcpu=v3 -I/usr/include/x86_64-linux-gnu
