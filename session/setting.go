package session

import (
	"slices"
	"strconv"

	"pillion.dev/internal/quantity"
	"pillion.dev/measure/point"
	"pillion.dev/wire"
)

// Families of addresses.
const (
	IPv4      = "ipv4"
	IPv6      = "ipv6"
	AnyFamily = "any"
)

// Authentication of marks.
const (
	AutoAuthentication = "auto"
	Authenticated      = "on"
	Unauthenticated    = "off"
)

// Granularities of rows.
const (
	ByFlow     = "flow"
	ByHostPort = "host-port"
	ByHost     = "host"
)

var settings = []point.Option{
	encodings(),
	{Name: "stamp_every", Type: point.Integer, Default: "16", Min: "1", Max: "4096", Doc: "how many packets of a fast flow share one time stamp"},
	{
		Name: "authentication", Type: point.Choice, Default: AutoAuthentication, Doc: "whether marks prove which host wrote them",
		Choices: []string{AutoAuthentication, Authenticated, Unauthenticated},
		ChoiceDocs: []string{
			"As on, unless an agent is of a version that does not support it.",
			"Each mark carries a tag of 4 bytes that only its source can compute: forged and replayed marks are not counted. Not through NAT. Clocks must agree within 17 s.",
			"Marks carry no tag: for networks whose hosts and links are trusted, and for paths through NAT.",
		},
	},
	{
		Name: "family", Type: point.Choice, Default: AnyFamily, Doc: "address family", Choices: []string{AnyFamily, IPv4, IPv6},
		ChoiceDocs: []string{"IPv4 and IPv6 packets.", "IPv4 packets only.", "IPv6 packets only."},
	},
	{Name: "interval", Type: point.Duration, Default: "1s", Min: "100ms", Max: "1h", Doc: "interval covered by a row"},
	{
		Name: "granularity", Type: point.Choice, Default: ByFlow, Doc: "what a row aggregates", Choices: []string{ByFlow, ByHostPort, ByHost},
		ChoiceDocs: []string{
			"Addresses, protocol and both ports: shows which connection is affected. Most rows.",
			"Addresses, protocol and destination port: shows which service is affected. Aggregates its connections.",
			"Addresses only. Fewest rows; enough for the delay and loss of the path.",
		},
	},
	{Name: "lease", Type: point.Duration, Default: "10s", Min: "2s", Max: "5m", Doc: "how long a source keeps marking without a heartbeat from the server"},
	{Name: "trace", Type: point.Duration, Default: "1m", Min: "5s", Doc: "interval between path traces"},
	{Name: "duration", Type: point.Duration, Min: "1s", Max: "3660d", Doc: "duration of a run"},
	{Name: "min_gap", Type: point.Duration, Default: "0s", Min: "0s", Max: "1h", Doc: "minimum time between two marked packets"},
}

// Settings are the fields of a specification that have bounds or a fixed set of values,
// with their defaults, in the form of the options of points. Complete, Validate, the help of
// the command line and the form on the page follow from them.
func Settings() []point.Option { return slices.Clone(settings) }

func setting(name string) point.Option {
	return settings[slices.IndexFunc(settings, func(o point.Option) bool { return o.Name == name })]
}

// encodings offers the default list first, then each encoding alone, in the form in which
// a specification is completed. Other lists are valid too.
func encodings() point.Option {
	o := point.Option{
		Name: "encoding", Type: point.Choice, Default: wire.DefaultEncodings().String(), Doc: "encodings of marks, in order of preference",
		Choices: []string{wire.DefaultEncodings().String()}, ChoiceDocs: []string{"A packet gets the first of these that applies to it."},
	}
	for _, e := range wire.Encodings() {
		if list := completeEncodings(e.String(), AnyFamily); !slices.Contains(o.Choices, list) {
			o.Choices, o.ChoiceDocs = append(o.Choices, list), append(o.ChoiceDocs, e.Doc())
		}
	}
	return o
}

func defaultInteger(name string) uint32 {
	n, _ := strconv.ParseUint(setting(name).Default, 10, 32)
	return uint32(n)
}

func defaultDuration(name string) Duration {
	d, _ := quantity.ParseDuration(setting(name).Default)
	return Duration(d)
}
