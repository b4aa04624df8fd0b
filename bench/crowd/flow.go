package main

import (
	"hash/fnv"
	"math"
	"math/rand/v2"
	"time"

	"pillion.dev/measure"
	"pillion.dev/session"
)

// flow is traffic that goes from one host to another all the time.
type flow struct {
	proto        string
	sport, dport uint32
	// rate is in packets a second, size in bytes a packet.
	rate, size float64
}

// pairHash is the same in both directions, so that who is heard also hears.
func pairHash(a, b string) uint64 {
	if a > b {
		a, b = b, a
	}
	sum := fnv.New64a()
	sum.Write([]byte(a + " " + b))
	x := sum.Sum64() // its low bits alone are not even
	x ^= x >> 31
	x *= 0x9e3779b97f4a7c15
	return x ^ x>>29
}

// heard are the peers of which a host gets traffic: about so many, or all.
func heard(own string, peers []session.Peer, sources int) map[string]bool {
	chosen := map[string]bool{}
	for _, peer := range peers {
		share := float64(pairHash(own, peer.Agent)>>11) / (1 << 53)
		if sources == 0 || len(peers) <= sources || share < float64(sources)/float64(len(peers)) {
			chosen[peer.Agent] = true
		}
	}
	return chosen
}

// flowsOf a pair: mostly one, for some more.
func flowsOf(source, destination string) []flow {
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

// merge is what granularity makes of the flows of a pair.
func merge(flows []flow, granularity string) []flow {
	if granularity != session.ByHost {
		return flows
	}
	sum := flow{}
	for _, f := range flows {
		sum.size = (sum.size*sum.rate + f.size*f.rate) / (sum.rate + f.rate)
		sum.rate += f.rate
	}
	return []flow{sum}
}

// row is one of measure.Flows, of a flow in the window that ends now.
func (h *host) row(task *session.DestinationTask, source *host, f flow, w way, now time.Time) (measure.Sample, error) {
	seconds := time.Duration(task.Interval).Seconds()
	wave := 1 + 0.35*math.Sin(float64(now.Unix())/37+float64(f.sport))
	weight := max(1, uint64(f.rate*seconds*wave*(0.9+0.2*h.random.Float64())/delaySamples))
	packets := weight * delaySamples
	lost := h.losses(packets, w.loss)
	if err := h.summary.fill(w, now, h.clockOffset(now)-source.clockOffset(now)); err != nil {
		return nil, err
	}
	var none measure.Value
	text, port := measure.StringValue, measure.Uint32Value
	sample := append(h.sample[:0],
		measure.TimeValue(now), text(task.Session), text(source.name), text(device),
		text(source.place.address.String()), text(h.place.address.String()))
	switch task.Granularity {
	case session.ByHost:
		sample = append(sample, none, none, none)
	case session.ByHostPort:
		sample = append(sample, text(f.proto), none, port(f.dport))
	default:
		sample = append(sample, text(f.proto), port(f.sport), port(f.dport))
	}
	var odd uint64
	if w.queue > 0 && h.random.IntN(4) == 0 {
		odd = 1
	}
	sample = append(sample,
		measure.DurationValue(time.Duration(task.Interval)),
		measure.Uint64Value(packets), measure.Uint64Value(uint64(float64(packets)*f.size)), measure.Uint64Value(packets+lost),
		measure.Uint64Value(lost), measure.Uint64Value(0), measure.Uint64Value(odd), measure.Uint64Value(0))
	sample = append(sample, h.summary.figures(delayColumn, packets)...)
	sample = append(sample, h.summary.figures(ipdvColumn, packets-1)...)
	bounds, counts := h.summary.buckets(weight)
	sample = append(sample, bounds, counts, measure.Int64Value(h.maxError), h.errorOf(source.name))
	h.sample = sample
	return sample, nil
}

// losses of so many packets: about as a binomial distribution has them.
func (h *host) losses(packets uint64, share float64) uint64 {
	mean := float64(packets) * share
	return uint64(max(0, math.Floor(mean+h.random.NormFloat64()*math.Sqrt(mean)+h.random.Float64())))
}
