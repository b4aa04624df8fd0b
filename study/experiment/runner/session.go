package runner

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink"

	"pillion.dev/measure/point"
	"pillion.dev/session"
	"pillion.dev/study/experiment"
)

// applySession starts the session of a treatment: on a server if there is one, else by hand, that is by
// running pillion-agent source and pillion-agent destination on the two hosts.
func (m *measurement) applySession(ctx context.Context, a experiment.Applied) error {
	spec, err := a.SessionOf(m.values)
	if err != nil {
		return err
	}
	source, err := end(spec.Sources, m.source, experiment.RoleSource)
	if err != nil {
		return err
	}
	destination, err := end(spec.Destinations, m.destination, experiment.RoleDestination)
	if err != nil {
		return err
	}
	if m.onServer(source, destination) {
		return m.startOnServer(ctx, spec, source, destination)
	}
	return m.startByHand(ctx, spec, source, destination)
}

// end returns the host at one end of a session: the named one, else otherwise.
func end(named []string, otherwise, role string) (string, error) {
	switch {
	case len(named) == 1:
		return named[0], nil
	case len(named) == 0 && otherwise != "":
		return otherwise, nil
	case len(named) == 0:
		return "", fmt.Errorf("find the %s of the session: %w: name it in the session, or call a host %s", role, errEnds, role)
	}
	return "", fmt.Errorf("find the %s of the session: %w: %d are given, one is supported", role, errEnds, len(named))
}

// errByHand is returned for a session with a field that works only on a server.
var errByHand = errors.New("only a session on a server can have this")

// needsServer returns the name of a field of the session that works only on a server, "" if there is none.
func needsServer(s *session.Spec) string {
	for _, field := range []struct {
		name string
		used bool
	}{
		{"both", s.Both}, {"sampling_for", len(s.SamplingFor) > 0}, {"records", s.Records}, {"routers", len(s.Routers) > 0},
		{"transit", len(s.Transit) > 0}, {"waypoints", len(s.Waypoints) > 0},
		{"points", len(s.Points) > 0}, {"trace", s.Trace > 0}, {"start", !s.Start.IsZero()}, {"duration", s.Duration > 0},
		{"cron", s.Cron != ""}, {"transit", len(s.Transit) > 0},
	} {
		if field.used {
			return field.name
		}
	}
	for _, one := range session.Settings() {
		if one.ServerOnly != "" && s.Value(one.Name) == one.ServerOnly {
			return one.Name
		}
	}
	return ""
}

// byHandOnly returns an error if the session needs a server.
func byHandOnly(s *session.Spec) error {
	if field := needsServer(s); field != "" {
		return fmt.Errorf("start session by hand: %s: %w; give the lab a service, or the hosts agents", field, errByHand)
	}
	return nil
}

// startByHand starts the destination before the source, as a server does for a session.
func (m *measurement) startByHand(ctx context.Context, s *session.Spec, source, destination string) error {
	if err := byHandOnly(s); err != nil {
		return err
	}
	for _, e := range []struct {
		role, host, other string
		arguments         []string
	}{
		{experiment.RoleDestination, destination, source, destinationArguments(s)},
		{experiment.RoleSource, source, destination, m.sourceArguments(s, destination)},
	} {
		p, err := m.place(e.host)
		if err != nil {
			return err
		}
		device := s.Device[e.host]
		if device == "" {
			if device, err = m.device(p, e.other); err != nil {
				return err
			}
		}
		program := m.Agent
		if p.ssh != "" {
			program = "pillion-agent"
		}
		words := []string{"exec", quote(program), e.role, "--dev", quote(device), "--json"}
		for _, argument := range e.arguments {
			words = append(words, quote(argument))
		}
		process, err := m.begin(p, strings.Join(words, " "), `"ready"`)
		if err != nil {
			return err
		}
		m.applied = append(m.applied, byHand{process, e.role})
		if err := process.Ready(ctx); err != nil {
			return err
		}
	}
	return nil
}

// settingArguments returns the options of a program (source or destination) for the settings in the session.
func settingArguments(s *session.Spec, program string) []string {
	var list []string
	for _, one := range session.Settings() {
		value := s.Value(one.Name)
		if !slices.Contains(one.ByHand, program) || value == "" || value == "false" {
			continue
		}
		list = append(list, "--"+strings.ReplaceAll(one.Name, "_", "-"))
		if one.Type != point.Switch {
			list = append(list, value)
		}
	}
	return list
}

func destinationArguments(s *session.Spec) []string {
	list := settingArguments(s, experiment.RoleDestination)
	if idle := s.IdleAtDestination(); idle > 0 {
		list = append(list, "--idle", idle.String())
	}
	if s.Interval > 0 {
		list = append(list, "--interval", s.Interval.String())
	}
	if s.Granularity != "" {
		list = append(list, "--by", s.Granularity)
	}
	return list
}

// sourceArguments returns the options of the source. It disables path validation, whose probes would
// count as packets of the load.
func (m *measurement) sourceArguments(s *session.Spec, destination string) []string {
	list := []string{"--path-validation", "off"}
	add := func(name, value string, given bool) {
		if given {
			list = append(list, "--"+name, value)
		}
	}
	lease := "0"
	if s.Lease > 0 {
		lease = s.Lease.String()
	}
	add("lease", lease, true)
	add("modules", strings.Join(s.Modules, ","), len(s.Modules) > 0)
	list = append(list, settingArguments(s, experiment.RoleSource)...)
	add("every", strconv.FormatUint(uint64(s.Sampling.Every), 10), s.Sampling.Every > 0)
	add("random", strconv.FormatUint(uint64(s.Sampling.Random), 10), s.Sampling.Random > 0)
	add("hash", strconv.FormatUint(uint64(s.Sampling.Hash), 10), s.Sampling.Hash > 0)
	add("hash-seed", s.Sampling.HashSeed, s.Sampling.HashSeed != "")
	add("min-gap", s.Sampling.MinGap.String(), s.Sampling.MinGap > 0)
	for _, filter := range s.Filters {
		add("filter", filter.String(), true)
	}
	families := map[string][]string{"ipv4": {"0.0.0.0/0"}, "ipv6": {"::/0"}}
	to := families[s.Family]
	if m.lab != nil && len(m.lab.Spec.Hosts) > 2 { // packets to other hosts must not get marks
		to = m.addressesOf(destination, s.Family)
	}
	for _, prefix := range to {
		add("to", prefix, true)
	}
	return list
}

// addressesOf returns the addresses of a host of the lab in an address family.
func (r *runner) addressesOf(host, family string) []string {
	var list []string
	for _, link := range r.lab.Spec.Links {
		for _, prefix := range link.Addresses[host] {
			if is4 := prefix.Addr().Is4(); family == "" || family == "any" || (family == "ipv4") == is4 {
				list = append(list, prefix.Addr().String())
			}
		}
	}
	return list
}

func noDevice(host string) error {
	return fmt.Errorf("find interface of host %s: give its device, under hosts or in the session", host)
}

// device returns the interface of a host over which it routes packets to another host.
func (r *runner) device(p place, other string) (string, error) {
	if device := r.spec.Hosts[p.name].Device; device != "" {
		return device, nil
	}
	if p.lab == nil {
		return "", noDevice(p.name)
	}
	var name string
	err := p.lab.Do(p.name, func() error {
		for _, text := range r.addressesOf(other, "") {
			address, err := netip.ParseAddr(text)
			if err != nil {
				return err
			}
			routes, err := netlink.RouteGet(address.AsSlice())
			if err != nil || len(routes) == 0 {
				continue
			}
			device, err := net.InterfaceByIndex(routes[0].LinkIndex)
			if err == nil {
				name = device.Name
				return nil
			}
		}
		return fmt.Errorf("there is no route to host %s", other)
	})
	if err != nil {
		return "", fmt.Errorf("find interface of host %s: %w", p.name, err)
	}
	return name, nil
}

// byHand is one end of a session by hand.
type byHand struct {
	*process
	role string
}

// undo stops the program and returns its summary, by role, and the counters that expectations compare.
func (b byHand) undo() (map[string]any, error) {
	if b.HasEnded() {
		return nil, errors.Join(invalid{fmt.Errorf("the %s ended before the load: %w", b.role, b.Failure())}, b.stop())
	}
	if err := b.stop(); err != nil {
		return nil, err
	}
	summary := b.Output.LastObject()
	if summary == nil {
		return nil, fmt.Errorf("the %s printed no summary: %w", b.role, b.Failure())
	}
	if !b.remote {
		summary["cpu_s"] = b.ProcessorTime().Seconds()
	}
	counters := map[string]any{b.role: summary}
	number := func(name string) float64 { n, _ := summary[name].(float64); return n }
	if b.role == experiment.RoleSource {
		counters["marked"] = number("marked") + number("counted")
	} else {
		counters["accepted"] = number("packets")
	}
	return counters, nil
}
