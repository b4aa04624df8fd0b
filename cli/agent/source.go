package agent

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"pillion.dev/agent"
	"pillion.dev/agent/runner"
	"pillion.dev/cli/command"
	"pillion.dev/internal/quantity"
	"pillion.dev/probe/block"
	"pillion.dev/probe/source"
	"pillion.dev/session"
	"pillion.dev/wire"
	"pillion.dev/wire/fivetuple"
)

type sourceCmd struct {
	Once   sourceRunCmd    `cmd:"" name:"run" default:"withargs" help:"Mark packets until interrupted, then print counters."`
	Change sourceChangeCmd `cmd:"" help:"Change which packets a running source marks, and how. What is not given stays as it is; without any option, every packet that matches is marked."`
}

type sourceRunCmd struct {
	Dev      string        `required:"" placeholder:"DEV" help:"Network interface whose outgoing packets are marked."`
	Modules  string        `default:"delay,loss" placeholder:"LIST" help:"Metrics to measure, separated by commas, delay or loss among them: ${modules_range} (${default})."`
	Encoding string        `placeholder:"LIST" help:"Encodings of marks in order of preference, separated by commas: ${encodings}. A packet gets the first one that applies to it (${encoding})."`
	To       []string      `placeholder:"PREFIX" help:"Mark only packets to these hosts. Those without a destination cannot read encapsulated IPv4 packets, and ignore marks in options. Repeatable."`
	Filter   []string      `sep:"none" placeholder:"RULE" help:"Mark only packets that match 'src=P dst=P proto=tcp sport=N dport=N'; all parts are optional. Repeatable: a packet has to match one rule."`
	Flows    int           `default:"65536" help:"Size of the flow table, in flows (${default})."`
	Hops     string        `enum:"off,ioam" default:"off" placeholder:"HOW" help:"ioam: once per --hops-gap, add an empty trace of IOAM to an IPv6 packet, into which routers write the time, for the delay of each hop; other packets keep their encoding. off: no traces (${default})."`
	Port     uint16        `default:"50253" help:"UDP destination port of the udp encoding (${default})."`
	Validate string        `name:"path-validation" enum:"auto,off" default:"auto" placeholder:"WHEN" help:"auto: mark packets to a host only after path probes have shown that marked packets arrive there; off: mark them at once (${default})."`
	KeyFile  string        `placeholder:"FILE" help:"Authenticate marks by a tag, with the key in this file: 32 hexadecimal digits (openssl rand -hex 16), the same at the destination. Others can then neither forge nor replay marks. The clocks of both hosts must agree within 17 s, and NAT must not change addresses or ports. Default: no tags."`
	Lease    leaseFlag     `default:"10s" placeholder:"TIME" help:"Stop marking if this program has not responded for this long; 0 disables the lease (${default})."`
	Interval time.Duration `default:"1s" help:"Interval of the live view (${default})."`
	JSON     bool          `name:"json" help:"Print JSON, one object per line."`
	Clsact   bool          `hidden:"" help:"Use clsact even if the kernel has tcx."`
	RecordFlags
	wire.Marking
}

// leaseFlag is a duration in which 0 means no limit.
type leaseFlag time.Duration

// UnmarshalText reads a duration, or 0.
func (l *leaseFlag) UnmarshalText(text []byte) error {
	if string(text) == "0" {
		*l = leaseFlag(source.Forever)
		return nil
	}
	d, err := quantity.ParseDuration(string(text))
	if err != nil || d <= 0 {
		return fmt.Errorf("%q is not a duration such as 10s, nor 0", text)
	}
	*l = leaseFlag(d)
	return nil
}

// Run marks packets.
func (c *sourceRunCmd) Run(ctx context.Context) error {
	settings, err := c.settings()
	if err != nil {
		return err
	}
	if c.Interval <= 0 {
		return fmt.Errorf("read interval: %w: %v is not positive", command.ErrValue, c.Interval)
	}
	return agent.RunSource(ctx, agent.SourceOptions{
		LocalSource: runner.LocalSource{Device: c.Dev, Settings: settings, Lease: time.Duration(c.Lease)},
		Interval:    c.Interval, RecordFile: c.File(), JSON: c.JSON,
	}, c.Out())
}

func (c *sourceRunCmd) settings() (source.Settings, error) {
	settings := source.Settings{Port: c.Port, Flows: c.Flows, ValidatePaths: c.Validate == "auto", Clsact: c.Clsact}
	settings.Encodings = wire.DefaultEncodings()
	var err error
	if settings.Modules, settings.Extra, err = session.ParseModules(c.Modules); err != nil {
		return settings, fmt.Errorf("%w: %w", command.ErrValue, err)
	}
	if settings.Marking, err = session.CompleteMarking(c.Marking); err != nil {
		return settings, fmt.Errorf("%w: %w", command.ErrValue, err)
	}
	if c.Hops != session.HopsIOAM {
		settings.HopsGap = 0
	}
	if c.Encoding != "" {
		if settings.Encodings, err = wire.ParseEncodings(c.Encoding); err != nil {
			return settings, fmt.Errorf("%w: %w", command.ErrValue, err)
		}
	}
	if c.Flows < 1 || c.Flows > 1<<24 {
		return settings, fmt.Errorf("read flow table size: %w: %d is not between 1 and 2^24", command.ErrValue, c.Flows)
	}
	if err := block.Check(time.Duration(settings.Block)); err != nil {
		return settings, fmt.Errorf("%w: %w", command.ErrValue, err)
	}
	if c.KeyFile != "" {
		key, err := readKey(c.KeyFile)
		if err != nil {
			return settings, err
		}
		settings.Tagged, settings.Keys = true, map[netip.Prefix]wire.Key{}
		for _, prefix := range everyHost {
			settings.Keys[prefix] = key
		}
	}
	settings.Rules, err = rulesOf(c.Filter, c.To)
	return settings, err
}

// rulesOf combines filters with the hosts that packets are addressed to.
func rulesOf(filters, hosts []string) ([]fivetuple.Filter, error) {
	var rules []fivetuple.Filter
	for _, text := range filters {
		rule, err := fivetuple.ParseFilter(text)
		if err != nil {
			return nil, err
		}
		rules = append(rules, rule)
	}
	to, err := prefixes(hosts)
	if err != nil {
		return nil, err
	}
	return fivetuple.Combine(rules, to)
}

func prefixes(texts []string) ([]netip.Prefix, error) {
	var list []netip.Prefix
	for _, text := range texts {
		prefix, err := fivetuple.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("read prefix: %w: %w", command.ErrValue, err)
		}
		list = append(list, prefix)
	}
	return list, nil
}

type sourceChangeCmd struct {
	Dev      string        `required:"" placeholder:"DEV" help:"Network interface on which the source runs."`
	Modules  string        `placeholder:"LIST" help:"Metrics to measure, separated by commas: ${modules_range}."`
	Encoding string        `placeholder:"LIST" help:"Encodings of marks in order of preference, separated by commas: ${encodings}."`
	To       []string      `placeholder:"PREFIX" help:"Mark only packets to these hosts. Replaces the hosts and filters of the source. Repeatable."`
	Filter   []string      `sep:"none" placeholder:"RULE" help:"Mark only packets that match 'src=P dst=P proto=tcp sport=N dport=N'. Replaces the hosts and filters of the source. Repeatable."`
	Sampling wire.Sampling `embed:""`
}

// Run asks the running source.
func (c *sourceChangeCmd) Run() error {
	rules, err := rulesOf(c.Filter, c.To)
	if err != nil {
		return err
	}
	change := agent.Change{Modules: c.Modules, Encoding: c.Encoding, Sampling: c.Sampling}
	for _, rule := range rules {
		change.Filters = append(change.Filters, rule.String())
	}
	others := c.Modules != "" || c.Encoding != "" || len(rules) > 0
	change.Sampled = !others || c.Sampling != wire.Sampling{}
	return agent.ChangeSource(c.Dev, change)
}
