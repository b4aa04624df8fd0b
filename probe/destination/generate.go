package destination

//go:generate go generate ../module
//go:generate go tool bpf2go -cc clang-16 -strip llvm-strip-16 -target bpfel -type verdict -type tally -type peer -type mark_key -type flow_key -type flow -type slot -type window -type collected_page -type page -type page_key -type record -type marker -type mismatch -type trace_tally -type module_state -type module_key -type collected_state -output-stem destination destination destination.c -- -O2 -g -Wall -Werror -mcpu=v3 -I/usr/include/x86_64-linux-gnu
