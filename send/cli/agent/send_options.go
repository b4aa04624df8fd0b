package agent

import (
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"pillion.dev/cli/command"
	"pillion.dev/send/frame"
)

// Sources of packets other than patterns: the options that choose them.
const (
	fromModel   = "--model"
	fromFlows   = "--schedule of flows"
	fromCapture = "--schedule of a capture"
)

var patterns = []string{"train", "pair", "rate", "chirp", "periodic", "poisson"}

// sourced lists for options the sources of packets with which they have an effect.
var sourced = []struct {
	options []string
	sources []string
}{
	{[]string{"gap"}, []string{"train", "chirp", "periodic", "poisson"}},
	{[]string{"rate"}, []string{"rate"}},
	{[]string{"factor"}, []string{"chirp"}},
	{[]string{"size"}, patterns},
	{[]string{"count"}, []string{"train", "rate", "chirp", "periodic", "poisson", fromModel}},
	{[]string{"trains", "every"}, []string{"train", "pair", "rate", "chirp"}},
	{[]string{"seed"}, []string{"periodic", "poisson", fromModel}},
	{[]string{"flows"}, []string{fromModel}},
	{[]string{"speed", "max-gap"}, []string{fromCapture}},
	{
		[]string{"to", "from", "proto", "ip-protocol", "tcp-flags", "dscp", "ecn", "ttl", "flow-label", "vlan", "replies"},
		append([]string{fromModel, fromFlows}, patterns...),
	},
}

// conditional lists what options require in order to have an effect: in words, and as a test (met).
var conditional = []struct {
	options []string
	needs   string
	met     func(c *sendCmd, h *frame.Header) bool
}{
	{[]string{"tcp-flags"}, "--proto tcp", func(c *sendCmd, h *frame.Header) bool { return c.Proto == frame.TCP }},
	{[]string{"ip-protocol"}, "--proto raw", func(c *sendCmd, h *frame.Header) bool { return c.Proto == frame.Raw }},
	{[]string{"flow-label"}, "an IPv6 destination", func(c *sendCmd, h *frame.Header) bool { return h == nil || h.Destination.Is6() }},
	{[]string{"from", "proto", "dscp", "ecn", "ttl", "flow-label", "vlan"}, "--to", func(c *sendCmd, h *frame.Header) bool { return h != nil }},
	{
		[]string{"ecn", "flow-label", "vlan", "replies", "mode", "mechanism", "lead", "drop-late", "no-driver-times", "schedule", "save"}, "packets, not --proto tcp-stream",
		func(c *sendCmd, h *frame.Header) bool { return c.Proto != tcpStream },
	},
	{[]string{"every"}, "--trains", func(c *sendCmd, h *frame.Header) bool { return c.Trains > 1 }},
	{[]string{"wait"}, "--replies", func(c *sendCmd, h *frame.Header) bool { return c.Replies }},
	{[]string{"lab"}, "--netns", func(c *sendCmd, h *frame.Header) bool { return c.Netns != "" }},
	{
		[]string{"mechanism", "lead", "late", "drop-late", "no-driver-times", "replies", "oml", "json", "records", "records-format"}, "packets that are sent, not saved (--save)",
		func(c *sendCmd, h *frame.Header) bool { return c.Save == "" },
	},
}

// checkApplies returns an error if an option of the command line would have no effect. header has the header fields of
// the flow given by --to; it is nil without --to.
func (c *sendCmd) checkApplies(line *kong.Context, source string, header *frame.Header) error {
	var given []string
	for _, p := range line.Path {
		if p.Flag != nil && !p.Resolved {
			given = append(given, p.Flag.Name)
		}
	}
	for _, name := range given {
		for _, row := range sourced {
			if slices.Contains(row.options, name) && !slices.Contains(row.sources, source) {
				return fmt.Errorf("read --%s: %w: it has no effect with %s, only with %s", name, command.ErrValue, source, strings.Join(row.sources, ", "))
			}
		}
		for _, row := range conditional {
			if slices.Contains(row.options, name) && !row.met(c, header) {
				return fmt.Errorf("read --%s: %w: it needs %s", name, command.ErrValue, row.needs)
			}
		}
	}
	return nil
}
