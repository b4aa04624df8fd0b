package main

import (
	"hash/fnv"
	"math"
	"math/rand/v2"
	"time"

	"pillion.dev/measure"
	"pillion.dev/measure/flows"
	"pillion.dev/session"
)

// flow is continuous traffic from one host to another.
type flow struct {
	proto        string
	sport, dport uint32
	// rate is in packets per second, size in bytes per packet.
	rate, size float64
}

// pairHash is the same in both directions, so that traffic is bidirectional.
func pairHash(a, b string) uint64 {
	if a > b {
		a, b = b, a
	}
	sum := fnv.New64a()
	sum.Write([]byte(a + " " + b))
	x := sum.Sum64() // its low bits alone are not uniform
	x ^= x >> 31
	x *= 0x9e3779b97f4a7c15
	return x ^ x>>29
}

// peersWithTraffic selects the peers that send traffic to a host: about this many, or all.
func peersWithTraffic(own string, peers []session.Peer, sources int) map[string]bool {
	chosen := map[string]bool{}
	for _, peer := range peers {
		share := float64(pairHash(own, peer.Agent)>>11) / (1 << 53)
		if sources == 0 || len(peers) <= sources || share < float64(sources)/float64(len(peers)) {
			chosen[peer.Agent] = true
		}
	}
	return chosen
}

// trafficOf returns the flows of a pair: mostly one, for some pairs more.
func trafficOf(source, destination string) []flow {
	random := rand.New(rand.NewPCG(pairHash(source, destination), uint64(len(source))+uint64(source[len(source)-1])))
	kinds := []flow{{"tcp", 0, 443, 80, 1100}, {"tcp", 0, 5432, 120, 420}, {"udp", 0, 4500, 200, 900}, {"udp", 0, 53, 48, 110}}
	random.Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
	count := 1
	if random.IntN(6) == 0 {
		count = 2 + random.IntN(2)
	}
	for i := range kinds {
		kinds[i].sport = 32768 + uint32(random.IntN(28000))
		kinds[i].rate *= 0.5 + 2*random.ExpFloat64()
	}
	return kinds[:count]
}

// merge aggregates the flows of a pair by granularity.
func merge(all []flow, granularity string) []flow {
	if granularity != session.ByHost {
		return all
	}
	sum := flow{}
	for _, f := range all {
		sum.size = (sum.size*sum.rate + f.size*f.rate) / (sum.rate + f.rate)
		sum.rate += f.rate
	}
	return []flow{sum}
}

// row returns a row of measure.Flows for a flow in the window that ends now.
func (h *host) row(task *session.DestinationTask, source *host, f flow, w way, now time.Time) measure.Sample {
	seconds := time.Duration(task.Interval).Seconds()
	wave := 1 + 0.35*math.Sin(float64(now.Unix())/37+float64(f.sport))
	weight := max(1, uint64(f.rate*seconds*wave*(0.9+0.2*h.random.Float64())/delaySamples))
	packets := weight * delaySamples
	lost := h.losses(packets, w.loss)
	row := flows.Row{
		End: now, Interval: time.Duration(task.Interval), Session: task.Session, Source: source.name, Device: device,
		Flow: flows.Flow{Src: source.place.address.String(), Dst: h.place.address.String(), Proto: f.proto, Sport: f.sport, Dport: f.dport},
		Sum: flows.Sum{Counts: flows.Counts{
			Packets: packets, Bytes: uint64(float64(packets) * f.size), Expected: packets + lost, Lost: lost,
		}},
		DestinationClock: flows.BoundOf(h.maxErrorNs), SourceClock: h.errorOf(source.name),
	}
	switch task.Granularity {
	case session.ByHost:
		row.Proto, row.Sport, row.Dport = "", 0, 0
	case session.ByHostPort:
		row.Sport = 0
	}
	if w.queue > 0 && h.random.IntN(4) == 0 {
		row.Reordered = 1
	}
	row.Delay, row.IPDV = delays(h.random, w, h.clockOffset(now)-source.clockOffset(now), weight)
	h.sample = row.Sample(h.sample[:0])
	return h.sample
}

// losses draws the losses of a number of packets, approximately from a binomial distribution.
func (h *host) losses(packets uint64, share float64) uint64 {
	mean := float64(packets) * share
	return uint64(max(0, math.Floor(mean+h.random.NormFloat64()*math.Sqrt(mean)+h.random.Float64())))
}
