package session

import (
	"cmp"

	"pillion.dev/wire"
)

// Complete returns the specification with defaults filled in and modules sorted.
func (s Spec) Complete() Spec {
	s.Modules = s.completeModules()
	if s.Encoding == "" && len(s.Waypoints) > 0 {
		s.Encoding = waypointEncodings()
	}
	s.completeSettings()
	s.Encoding = completeEncodings(s.Encoding, s.Family)
	s.Granularity = cmp.Or(s.Granularity, setting("granularity").Default)
	s.Flow = completeFlow(s.Flow)
	s.Interval = cmp.Or(s.Interval, defaultDuration("interval"))
	s.Trace = cmp.Or(s.Trace, defaultDuration("trace"))
	s.Points = completePoints(s.Points)
	if s.Cron != "" {
		s.TimeZone = cmp.Or(s.TimeZone, "UTC")
	}
	return s
}

// SamplingOf is the sampling of one source; one in one is normalised to zero, all packets.
func (s Spec) SamplingOf(agent string) Sampling {
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
	if sampling.Hash <= 1 {
		sampling.Hash, sampling.HashSeed = 0, ""
	}
	return sampling
}

// marks reports whether packets of an address family are marked.
func (s Spec) marks(is4 bool) bool {
	if is4 {
		return s.Family != IPv6 && s.encodes(wire.ClassIPv4)
	}
	return s.Family != IPv4 && s.encodes(wire.ClassIPv6)
}

// encodes reports whether an encoding marks packets of a class. A list that does not
// exist is reported elsewhere.
func (s Spec) encodes(c wire.Class) bool {
	list, err := wire.ParseEncodings(s.Encoding)
	_, found := list.Choose(c)
	return err != nil || found
}

// completeEncodings fills in the default list, and native where no encoding marks IPv6.
func completeEncodings(text, family string) string {
	if text == "" {
		return wire.DefaultEncodings().String()
	}
	list, err := wire.ParseEncodings(text)
	if err != nil {
		return text
	}
	if _, found := list.Choose(wire.ClassIPv6); !found && family != IPv4 {
		list = append(wire.EncodingList{wire.Native}, list...)
	}
	return list.String()
}
