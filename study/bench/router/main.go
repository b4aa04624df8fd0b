// Command router is the workload of the experiments on routers (study/bench/router*.yaml,
// study/bench/paper/s3): each run builds a router between a sender and a receiver in network
// namespaces, measures one thing under one condition, and prints one JSON object. Its subcommands:
//
//	delays    what each packet waited for in the router, its queues and coffee breaks (seed 3, figures 4 to 8)
//	lossless  the highest rate at which no packet is lost
//	hop       single-hop delay against transit and l/C (seed 3, equations 1 to 3)
//	rate      packet rate without the profile, with it, and with what stands in for it
//	hooks     what each hook of the profile costs
//	account   the fate of many packets of which a rule drops one in a hundred
//
// It needs root. Times are spent in the kernel's code alone: there are no wires.
package main

import (
	"time"

	"pillion.dev/study/bench/result"
)

// patience with what must end soon.
const patience = 10 * time.Second

var commands = map[string]result.Command{
	"delays": result.Root(delaysCommand), "lossless": result.Root(losslessCommand), "hop": result.Root(hopCommand),
	"rate": result.Root(rateCommand), "hooks": result.Root(hooksCommand), "account": result.Root(accountCommand),
}

func main() { result.Main("router", commands) }
