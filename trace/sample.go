package trace

import "pillion.dev/measure"

// Samples returns the path as samples of measure.Hops: one per hop, all with the same
// time.
func Samples(path *Path, session, peer string) []measure.Sample {
	samples := make([]measure.Sample, 0, len(path.Hops))
	for _, h := range path.Hops {
		var address, rtt measure.Value
		if h.Address.IsValid() {
			address, rtt = measure.StringValue(h.Address.String()), measure.DurationValue(h.RTT)
		}
		samples = append(samples, measure.Sample{
			measure.TimeValue(path.Time),
			measure.StringValue(session),
			measure.StringValue(peer),
			measure.StringValue(path.Source.String()),
			measure.StringValue(path.Destination.String()),
			measure.StringValue(path.Protocol),
			measure.Uint32Value(uint32(h.TTL)),
			address,
			rtt,
			measure.Uint32Value(uint32(h.Sent)),
			measure.Uint32Value(uint32(h.Answers)),
			measure.BoolValue(path.Reached),
		})
	}
	return samples
}
