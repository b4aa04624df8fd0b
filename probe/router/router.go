// Package router measures where packets wait inside a router (seed 3), in the kernel
// and without a change of it.
//
// Each forwarded packet is seen four times: when it enters (t1), when IP begins with
// it (t2: PRE_ROUTING), when IP has ended (t3: POST_ROUTING), and when the output
// driver gets it (t4). Between them lie input queuing, processing and output queuing.
// Histograms, queues and accounts are kept by the programs; nothing goes to user space
// per packet unless records are asked for.
//
// In the flow it stands beside source and destination: package measure makes points of
// what it reads. It does not know whose traffic it is, and changes none.
package router
