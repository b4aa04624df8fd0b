package session

import (
	"cmp"
	"maps"
	"slices"

	"pillion.dev/wire"
	"pillion.dev/wire/fivetuple"
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
	if sampling, ok := s.SamplingFor[agent]; ok {
		return sampling.Plain()
	}
	return s.Sampling.Plain()
}

// samples reports whether some source marks a part of the packets only.
func (s Spec) samples() bool {
	return s.Sampling.Plain() != Sampling{} || slices.ContainsFunc(slices.Collect(maps.Values(s.SamplingFor)), func(one Sampling) bool { return one.Plain() != Sampling{} })
}

// marking has the settings of one source of a complete specification. Those that do not apply have no value,
// nor have those with the agent's default.
func (s Spec) marking(agent string) wire.Marking {
	m := s.Marking
	m.Sampling = s.SamplingOf(agent)
	if s.Hops != HopsIOAM {
		m.HopsGap = 0
	}
	if !s.hasBlocks() {
		m.Block = 0
	}
	if m.Flow == fivetuple.All {
		m.Flow = 0
	}
	if m.Idle == defaultDuration("idle") {
		m.Idle = 0
	}
	return m
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
