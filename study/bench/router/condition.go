package main

import (
	"errors"
	"flag"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"pillion.dev/probe/router"
)

// condition is an operating condition of the paper.
type condition struct {
	layout
	protocol  int
	payload   payload
	packets   int
	rate      float64 // packets/s of the test
	competing float64 // Mbit/s of the rival
	seed      uint64
	coffee    time.Duration // the least length of a break
	kept      float64       // of the rate, by the sender
}

// rivalPayload of a competing packet, in bytes.
const rivalPayload = 550

// flags of a condition; values are those after parsing.
func (c *condition) flags(f *flag.FlagSet) (parse func() error) {
	size := f.String("payload", "550", "payload of a packet in `bytes`, gaussian:MEAN:DEVIATION or pareto:SHAPE:SCALE")
	protocol := f.String("protocol", "udp", "udp or tcp")
	f.IntVar(&c.family, "family", 4, "4 or 6")
	f.Float64Var(&c.mbit, "line", 0, "rate of the router's output in Mbit/s; 0: unlimited")
	f.IntVar(&c.packets, "packets", 150_000, "packets of the test")
	f.Float64Var(&c.rate, "rate", 10_000, "packets/s of the test; 0: as fast as possible")
	f.Float64Var(&c.competing, "competing", 0, "rate of a second flow through the output in Mbit/s, datagrams of 550 bytes, exponential interarrival times")
	f.Uint64Var(&c.seed, "seed", 1, "seed of random payloads and of the competing flow")
	f.DurationVar(&c.coffee, "break", router.DefaultBreak, "the least length of a coffee break")
	return func() (err error) {
		c.steered = true
		switch {
		case c.family != 4 && c.family != 6:
			return fmt.Errorf("invalid -family %d: want 4 or 6", c.family)
		case *protocol != "udp" && *protocol != "tcp":
			return fmt.Errorf("invalid -protocol %q: want udp or tcp", *protocol)
		case c.packets < 1 || c.rate < 0 || c.mbit < 0 || c.competing < 0:
			return errors.New("-packets has to be positive; -rate, -line and -competing must not be negative")
		}
		c.protocol = unix.IPPROTO_UDP
		if *protocol == "tcp" {
			c.protocol = unix.IPPROTO_TCP
		}
		c.payload, err = parsePayload(*size)
		return err
	}
}

// plan of the condition's packets.
func (c *condition) plan(packets int, rate float64) []departure {
	frame := float64(rivalPayload + headers(c.family))
	return plan(c.payload.lengths(packets, c.seed), rate, c.competing*1e6/8/frame, rivalPayload, c.seed)
}
