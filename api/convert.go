package api

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"pillion.dev/api/pillionv1"
	"pillion.dev/session"
)

// SpecMessage is the specification as the API carries it.
func SpecMessage(s session.Spec) *pillionv1.SessionSpec {
	m := &pillionv1.SessionSpec{
		Name: s.Name, Sources: s.Sources, Destinations: s.Destinations, Both: s.Both,
		Modules: s.Modules, Encoding: s.Encoding, Family: s.Family, Filters: s.Filters,
		Sampling: samplingMessage(s.Sampling), Interval: DurationMessage(time.Duration(s.Interval)),
		Granularity: s.Granularity, Records: s.Records, Fields: s.Fields, Device: s.Device,
		Lease: DurationMessage(time.Duration(s.Lease)), Trace: DurationMessage(time.Duration(s.Trace)),
		Start: TimeMessage(s.Start), Duration: DurationMessage(time.Duration(s.Duration)),
		Cron: s.Cron, TimeZone: s.TimeZone, Routers: s.Routers,
	}
	for agent, sampling := range s.SamplingFor {
		if m.SamplingFor == nil {
			m.SamplingFor = map[string]*pillionv1.Sampling{}
		}
		m.SamplingFor[agent] = &pillionv1.Sampling{
			Every: sampling.Every, Random: sampling.Random, MinGap: DurationMessage(time.Duration(sampling.MinGap)),
		}
	}
	return m
}

// SpecOf reads a specification. Only times and durations that Go cannot hold are
// errors; whether the rest makes sense is for package session to say.
func SpecOf(m *pillionv1.SessionSpec) (session.Spec, error) {
	var fault error
	duration := func(field string, d *durationpb.Duration) session.Duration {
		value, err := DurationOf(d)
		if err != nil && fault == nil {
			fault = fmt.Errorf("read %s: %w", field, err)
		}
		return session.Duration(value)
	}
	sampling := func(field string, m *pillionv1.Sampling) session.Sampling {
		return session.Sampling{Every: m.GetEvery(), Random: m.GetRandom(), MinGap: duration(field+".min_gap", m.GetMinGap())}
	}
	start, err := TimeOf(m.GetStart())
	if err != nil {
		return session.Spec{}, fmt.Errorf("read start: %w", err)
	}
	s := session.Spec{
		Name: m.GetName(), Sources: m.GetSources(), Destinations: m.GetDestinations(), Both: m.GetBoth(),
		Modules: m.GetModules(), Encoding: m.GetEncoding(), Family: m.GetFamily(), Filters: m.GetFilters(),
		Sampling: sampling("sampling", m.GetSampling()), Interval: duration("interval", m.GetInterval()),
		Granularity: m.GetGranularity(), Records: m.GetRecords(), Fields: m.GetFields(), Device: m.GetDevice(),
		Lease: duration("lease", m.GetLease()), Trace: duration("trace", m.GetTrace()),
		Start: start, Duration: duration("duration", m.GetDuration()), Cron: m.GetCron(), TimeZone: m.GetTimeZone(),
		Routers: m.GetRouters(),
	}
	for agent, one := range m.GetSamplingFor() {
		if s.SamplingFor == nil {
			s.SamplingFor = map[string]session.Sampling{}
		}
		s.SamplingFor[agent] = sampling(fmt.Sprintf("sampling_for[%q]", agent), one)
	}
	if fault != nil {
		return session.Spec{}, fault
	}
	return s, nil
}

func samplingMessage(s session.Sampling) *pillionv1.Sampling {
	if s == (session.Sampling{}) {
		return nil
	}
	return &pillionv1.Sampling{Every: s.Every, Random: s.Random, MinGap: DurationMessage(time.Duration(s.MinGap))}
}

// InterfaceMessages are a host's interfaces.
func InterfaceMessages(all []session.Interface) []*pillionv1.Interface {
	var messages []*pillionv1.Interface
	for _, i := range all {
		messages = append(messages, &pillionv1.Interface{
			Name: i.Name, Mtu: uint32(max(i.MTU, 0)), Up: i.Up, Addresses: i.Addresses,
		})
	}
	return messages
}

// ClockMessage is the state of a clock.
func ClockMessage(c session.Clock) *pillionv1.Clock {
	return &pillionv1.Clock{Synchronised: c.Synchronised, MaxErrorNs: c.MaxErrorNs, OffsetNs: c.OffsetNs, By: c.By}
}

// SpoolMessage is the state of a spool.
func SpoolMessage(s session.Spool) *pillionv1.Spool {
	return &pillionv1.Spool{
		Batches: s.Batches, Bytes: s.Bytes, LimitBytes: s.LimitBytes, DroppedBatches: s.DroppedBatches,
		DroppedRows: s.DroppedRows, RejectedBatches: s.Rejected, SentRows: s.SentRows,
	}
}

// TaskMessages are the tasks of one agent.
func TaskMessages(agent string, all []session.TaskState) []*pillionv1.Task {
	var messages []*pillionv1.Task
	for _, t := range all {
		messages = append(messages, &pillionv1.Task{
			Agent: agent, Session: t.Session, Role: t.Role, Device: t.Device, Running: t.Running,
			Error: t.Error, Counters: t.Counters,
		})
	}
	return messages
}

// CheckMessages are what was looked at on a host.
func CheckMessages(all []session.Check) []*pillionv1.Check {
	var messages []*pillionv1.Check
	for _, c := range all {
		messages = append(messages, &pillionv1.Check{Name: c.Name, Level: c.Level, Found: c.Found, Advice: c.Advice})
	}
	return messages
}

// HopMessages are the hops of a traced path.
func HopMessages(all []session.TraceHop) []*pillionv1.Hop {
	var messages []*pillionv1.Hop
	for _, h := range all {
		messages = append(messages, &pillionv1.Hop{
			Ttl: uint32(max(h.TTL, 0)), Address: h.Address, RttNs: h.RTT,
			Sent: uint32(max(h.Sent, 0)), Answers: uint32(max(h.Answers, 0)),
		})
	}
	return messages
}

// TimeMessage leaves the zero time unset, and any time that JSON cannot have: a
// host with a wild clock must not spoil an answer.
func TimeMessage(t time.Time) *timestamppb.Timestamp {
	message := timestamppb.New(t)
	if t.IsZero() || !message.IsValid() {
		return nil
	}
	return message
}

// TimeOf is zero for an unset time.
func TimeOf(m *timestamppb.Timestamp) (time.Time, error) {
	if m == nil {
		return time.Time{}, nil
	}
	if err := m.CheckValid(); err != nil {
		return time.Time{}, fmt.Errorf("time %ds %dns: out of range", m.GetSeconds(), m.GetNanos())
	}
	return m.AsTime(), nil
}

// DurationMessage leaves the zero duration unset.
func DurationMessage(d time.Duration) *durationpb.Duration {
	if d == 0 {
		return nil
	}
	return durationpb.New(d)
}

// DurationOf is zero for an unset duration. One that time.Duration cannot hold
// (292 years) is an error.
func DurationOf(m *durationpb.Duration) (time.Duration, error) {
	if m == nil {
		return 0, nil
	}
	d := m.AsDuration() // saturates
	if m.CheckValid() != nil || durationpb.New(d).Seconds != m.GetSeconds() {
		return 0, fmt.Errorf("duration %ds %dns: out of range", m.GetSeconds(), m.GetNanos())
	}
	return d, nil
}
