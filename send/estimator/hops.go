package estimator

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"time"

	"pillion.dev/agent/view"
	"pillion.dev/send/estimate"
	"pillion.dev/send/reply"
	"pillion.dev/send/schedule"
)

// HopsPlan says what to send for an estimate of each link.
type HopsPlan struct {
	First, Last uint8         // hops
	Sizes       int           // different sizes of packets
	Repeats     int           // packets of each size
	Every       time.Duration // mean time between packets
	Seed        uint64
}

// Sizes of packets to routers. An ICMP error quotes as much of a packet as fits into 576
// bytes of IPv4 (RFC 1812, 4.3.2.3) or 1280 of IPv6 (RFC 4443, 2.4): the replies to packets
// at least that long are equally long.
const (
	leastToRouter4 = 14 + 576
	leastToRouter6 = 14 + 1280
)

// hop is a router and the link before it.
type hop struct {
	Number uint8 `json:"hop"`
	// Router is the address that replied; empty if none did.
	Router string `json:"router,omitempty"`
	Sent   int    `json:"sent"`
	estimate.Hop
}

// isLimited reports whether the router answered, but to few packets.
func (h hop) isLimited() bool { return h.Samples > 0 && 2*h.Samples < h.Sent }

// hopsResult is the result of RunHops.
type hopsResult struct {
	about
	Hops []hop `json:"hops"`
}

// RunHops estimates the links of a path from the replies of its routers, and prints them.
func RunHops(ctx context.Context, options Options, plan HopsPlan, out io.Writer) error {
	options.Path.Far = Far{Replies: true}
	return options.run(ctx, out, func(p *Prober, v view.View) error {
		hops, err := p.hops(ctx, plan, options.progress("hops"))
		if err != nil {
			return err
		}
		options.clear()
		var found []estimate.Finding
		for _, h := range hops {
			for _, f := range h.Findings {
				f.Detail = fmt.Sprintf("hop %d: %s", h.Number, f.Detail)
				found = append(found, f)
			}
		}
		r := hopsResult{about: p.about(estimate.HopAssumptions, found), Hops: hops}
		r.Untested = []string{
			"each router stores and forwards whole packets, and replies at the same speed to packets of all sizes",
			"some packets of each size meet no queue",
			"the route did not change",
			"each byte takes the same time, so that the layer does not matter",
		}
		if slices.ContainsFunc(hops, hop.isLimited) {
			r.Remarks = append(r.Remarks, "less than half of the packets to a router had a reply: routers limit the rate of ICMP errors (Linux: 6 at once, "+
				"then 1 a second for each peer); use a longer --every, such as 1s")
		}
		for i := range hops {
			if options.Report != nil {
				if err := options.Report.Put(&Hops, hopRow(time.Now(), &hops[i])); err != nil {
					return err
				}
			}
		}
		return v.Summary(r, "%s", r.text())
	})
}

// hops sends packets that end at each router in turn, until the destination replies.
func (p *Prober) hops(ctx context.Context, plan HopsPlan, progress func(string)) ([]hop, error) {
	far := p.far.(*replies) // RunHops asks for no other
	random := rand.New(rand.NewPCG(plan.Seed, 4))
	least := leastToRouter4
	if p.path.Header.Source.Is6() {
		least = leastToRouter6
	}
	var hops []hop
	var all [][]estimate.Echo
	for number := plan.First; number <= plan.Last; number++ {
		progress(fmt.Sprintf("hop %d", number))
		p.path.Header.HopLimit = number
		first := p.next
		count := plan.Sizes * plan.Repeats
		sizes := random.Perm(count)
		for i, k := range sizes {
			sizes[i] = least + (mostBytes-least)*(k%plan.Sizes)/(plan.Sizes-1)
		}
		trains, err := p.Round(ctx, singles(sizes, plan.Every, random), 1, count)
		if err != nil {
			return nil, err
		}
		h := hop{Number: number, Sent: count}
		var echoes []estimate.Echo
		arrived := false
		for _, train := range trains {
			for i, packet := range train {
				got, ok := far.Of(first, uint32(i))
				if !ok || packet.Lost {
					continue
				}
				h.Router = got.From.String()
				arrived = arrived || got.Kind != reply.TimeExceeded
				echoes = append(echoes, estimate.Echo{Size: packet.Size, RoundTripNS: packet.ReceivedNS - packet.SentNS})
			}
		}
		hops, all = append(hops, h), append(all, echoes)
		if arrived {
			break
		}
	}
	for i, e := range estimate.EstimateHops(all) {
		hops[i].Hop = e
	}
	return hops, nil
}

// singles are single packets of the given sizes, at random intervals around every.
func singles(sizes []int, every time.Duration, random *rand.Rand) schedule.Schedule {
	return func(yield func(schedule.Entry, error) bool) {
		var due time.Duration
		for i, size := range sizes {
			if !yield(schedule.Entry{Due: due, Number: uint32(i), Size: size}, nil) {
				return
			}
			due += spread(every, random)
		}
	}
}
