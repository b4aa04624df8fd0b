package session

import (
	"cmp"
	"slices"

	"pillion.dev/wire"
)

// Complete returns the specification with defaults filled in and modules sorted.
func (s Spec) Complete() Spec {
	s.Modules = slices.Sorted(slices.Values(s.Modules))
	if len(s.Modules) == 0 {
		s.Modules = []string{wire.Delay.String(), wire.Loss.String()}
	}
	s.Encoding = cmp.Or(s.Encoding, setting("encoding").Default)
	s.Family = cmp.Or(s.Family, setting("family").Default)
	s.Granularity = cmp.Or(s.Granularity, setting("granularity").Default)
	s.Interval = cmp.Or(s.Interval, defaultDuration("interval"))
	s.Lease = cmp.Or(s.Lease, defaultDuration("lease"))
	s.Trace = cmp.Or(s.Trace, defaultDuration("trace"))
	s.Points = completePoints(s.Points)
	if s.Cron != "" {
		s.TimeZone = cmp.Or(s.TimeZone, "UTC")
	}
	return s
}

// samplingOf is the sampling of one source; one in one is normalised to zero, all packets.
func (s Spec) samplingOf(agent string) Sampling {
	sampling, ok := s.SamplingFor[agent]
	if !ok {
		sampling = s.Sampling
	}
	if sampling.Every == 1 {
		sampling.Every = 0
	}
	if sampling.Random == 1 {
		sampling.Random = 0
	}
	return sampling
}

// marks reports whether packets of an address family are marked.
func (s Spec) marks(is4 bool) bool {
	if is4 {
		encoding, err := wire.ParseEncoding(s.Encoding)
		return s.Family != IPv6 && (err != nil || encoding.Applies(wire.ClassIPv4))
	}
	return s.Family != IPv4
}
