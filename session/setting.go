package session

import (
	"slices"
	"strconv"
	"strings"

	"pillion.dev/internal/quantity"
	"pillion.dev/measure/point"
	"pillion.dev/wire"
	"pillion.dev/wire/fivetuple"
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

// How paths are measured hop by hop.
const (
	HopsTraceroute = "traceroute"
	HopsIOAM       = "ioam"
	HopsOff        = "off"
)

// Granularities of rows.
const (
	ByFlow     = "flow"
	ByHostPort = "host-port"
	ByHost     = "host"
)

// Groups of settings: what they are about. Lists of a session's facts and the form on the page
// show the settings of each group together, in this order.
const (
	MarkGroup    = "marks"
	FlowGroup    = "flows"
	PathGroup    = "paths"
	ControlGroup = "control"
)

// Setting is a field of a specification that has bounds or a fixed set of values.
type Setting struct {
	point.Option
	// Field returns a pointer to it in a specification: *string, *bool, *uint32, *Duration or *fivetuple.Fields; nil: it is
	// not a single value there.
	Field func(*Spec) any
	// OneMark: sessions that mark the same packets have to agree in it, since a packet carries one mark.
	OneMark bool
	// Group of a field of Spec that this setting describes completely: its default and its check, the command line,
	// the form and the lists of facts follow from it. Fields without a group have code of their own.
	Group string
	// Label names it in lists of facts, in lowercase; Title is the label of its input, where that
	// differs.
	Label, Title string
	// Help says in sentences what to consider, beside Doc.
	Help string
	// Words say what a value means in a list of facts, by value; the words of * apply to all other values, and {}
	// in them is the value.
	Words map[string]string
	// Only, as NAME=VALUE, is the value of another setting, or one in its list, without which it has no
	// meaning: it is not shown then. Empty: it always has one.
	Only string
	// Open: other values are valid too.
	Open bool
	// ByHand are the programs of pillion-agent that have an option of this name, with hyphens.
	ByHand []string
	// ServerOnly is the value that only sessions on a server can have.
	ServerOnly string
}

// Text is what the value means in a list of facts.
func (s *Setting) Text(value string) string {
	if words, ok := s.Words[value]; ok || value == "" {
		return words
	}
	if words, ok := s.Words["*"]; ok {
		return strings.ReplaceAll(words, "{}", value)
	}
	return value
}

// Shown reports whether the setting has a meaning in a specification, and a value to show.
func (s *Setting) Shown(spec *Spec) bool {
	name, value, depends := strings.Cut(s.Only, "=")
	if depends && !slices.Contains(strings.Split(spec.Value(name), ","), value) {
		return false
	}
	own := spec.Value(s.Name)
	return own != "" && own != "false"
}

// Programs of pillion-agent that do by hand what an agent does in a session.
const (
	bySource      = "source"
	byDestination = "destination"
)

var settings = []Setting{
	{
		Option: encodings(), Field: func(s *Spec) any { return &s.Encoding }, OneMark: true,
		Group: MarkGroup, Label: "encoding", Title: "Encodings", Open: true, ByHand: []string{bySource},
	},
	{
		Option: point.Option{Name: "stamp_every", Type: point.Integer, Default: strconv.Itoa(wire.StampEveryDefault), Min: "1", Max: strconv.Itoa(wire.StampEveryMax), Doc: "how many packets of a fast flow share one time stamp"},
		Field:  func(s *Spec) any { return &s.StampEvery }, OneMark: true,
		Group: MarkGroup, Label: "time stamps", Title: "Packets per time stamp", ByHand: []string{bySource},
		Help:  "Every packet is numbered. In a flow with fewer than 8 times as many packets per second, every packet has a time; 1 stamps every packet.",
		Words: map[string]string{"1": "in every packet", "*": "one in {} packets of fast flows"},
	},
	{
		Option: point.Option{Name: "sparse_marks", Type: point.Switch, Default: "false", Doc: "whether only packets with a time stamp are marked"},
		Field:  func(s *Spec) any { return &s.SparseMarks }, OneMark: true,
		Group: MarkGroup, Label: "sparse marks", Title: "Mark only packets with a time stamp", ByHand: []string{bySource},
		Help:  "The other packets are counted, which costs least. Loss is exact from one mark to the next, but neither duplicates nor reordering are detected.",
		Words: map[string]string{"true": "only packets with a time stamp are marked", "false": "no"},
	},
	{
		Option: point.Option{Name: "block", Type: point.Duration, Default: "1s", Min: "100ms", Max: "1m", Doc: "with the encoding altmark, for how long packets have one colour"},
		Field:  func(s *Spec) any { return &s.Block }, OneMark: true,
		Group: MarkGroup, Label: "blocks", Title: "Length of blocks", Only: "encoding=" + wire.AltMark.String(), ByHand: []string{bySource, byDestination},
		Help:  "Of each block, altmark measures the loss and one delay. Clocks must agree to a quarter of it.",
		Words: map[string]string{"*": "{} each"},
	},
	{
		Option: point.Option{
			Name: "authentication", Type: point.Choice, Default: AutoAuthentication, Doc: "whether marks prove which host wrote them",
			Choices: []string{AutoAuthentication, Authenticated, Unauthenticated},
			ChoiceDocs: []string{
				"As on in sessions of a server, which gives agents the keys; as off without a server.",
				"Each mark carries a tag of 4 bytes that only its source can compute: forged and replayed marks are not counted. Not through NAT. Clocks must agree within 17 s.",
				"Marks carry no tag: for networks whose hosts and links are trusted, and for paths through NAT.",
			},
		},
		Field: func(s *Spec) any { return &s.Authentication },
		Group: MarkGroup, Label: "authentication", Title: "Authentication of marks", ServerOnly: Authenticated,
		Words: map[string]string{AutoAuthentication: "on"},
	},
	{
		Option: point.Option{
			Name: "family", Type: point.Choice, Default: AnyFamily, Doc: "address family", Choices: []string{AnyFamily, IPv4, IPv6},
			ChoiceDocs: []string{"IPv4 and IPv6 packets.", "IPv4 packets only.", "IPv6 packets only."},
		},
		Field: func(s *Spec) any { return &s.Family },
		Group: MarkGroup, Label: "family", Title: "Address family", Help: "IPv6 packets carry marks in an extension header that other hosts skip.",
	},
	{
		Option: flowFields(), Field: func(s *Spec) any { return &s.Flow }, OneMark: true,
		Group: FlowGroup, Label: "flows by", Title: "Fields in which two flows differ", ByHand: []string{bySource, byDestination},
		Help: "Packets that agree in them are numbered and counted as one flow: fewer fields need smaller tables and fewer rows.",
	},
	{
		Option: point.Option{Name: "flows", Type: point.Integer, Min: "1024", Max: "1048576", Doc: "size of the tables of flows; default: 65536 at a source, 16384 at a destination"},
		Field:  func(s *Spec) any { return &s.Flows },
		Group:  FlowGroup, Label: "flow tables", Title: "Size of flow tables", ByHand: []string{bySource, byDestination},
		Words: map[string]string{"": "65536 flows at a source, 16384 at a destination", "*": "{} flows"},
	},
	{
		Option: point.Option{Name: "idle", Type: point.Duration, Default: "1m", Min: "10s", Max: "1h", Doc: "how long a source keeps a flow without a packet; a destination keeps it twice as long"},
		Field:  func(s *Spec) any { return &s.Idle },
		Group:  FlowGroup, Label: "idle flows", Title: "Idle time of flows", ByHand: []string{bySource},
		Words: map[string]string{"*": "forgotten after {}"},
	},
	{
		Option: point.Option{
			Name: "hops", Type: point.Choice, Default: HopsTraceroute, Doc: "how paths are measured hop by hop", Choices: []string{HopsTraceroute, HopsIOAM, HopsOff},
			ChoiceDocs: []string{
				"Round-trip times to each router, by a few probes of its own at the interval of path traces.",
				"One-way delays of each hop, in IPv6 packets of the pair: routers with IOAM write the time into them. Traceroutes go on.",
				"Neither.",
			},
		},
		Field: func(s *Spec) any { return &s.Hops },
		Group: PathGroup, Label: "hops", Title: "Hop by hop", ServerOnly: HopsIOAM,
		Words: map[string]string{HopsTraceroute: "round trips, by traceroute", HopsIOAM: "one-way delays, by IOAM"},
	},
	{
		Option: point.Option{Name: "hops_gap", Type: point.Duration, Default: "100ms", Min: "10ms", Max: "1m", Doc: "with hops ioam, minimum time between two packets in which routers write"},
		Field:  func(s *Spec) any { return &s.HopsGap }, OneMark: true,
		Group: PathGroup, Label: "traced packets", Title: "Time between traced packets", Only: "hops=" + HopsIOAM,
		Help:  "Routers without IOAM forward such packets unchanged; some slow them down, and some networks drop them.",
		Words: map[string]string{"*": "at most one every {}"},
	},
	{
		Option: point.Option{Name: "lease", Type: point.Duration, Default: "10s", Min: "2s", Max: "5m", Doc: "how long a source keeps marking without a heartbeat from the server"},
		Field:  func(s *Spec) any { return &s.Lease },
		Group:  ControlGroup, Label: "lease", Help: "A short lease stops marking sooner, a long one bridges short outages.",
	},
	{Option: point.Option{Name: "interval", Type: point.Duration, Default: "1s", Min: "100ms", Max: "1h", Doc: "interval covered by a row"}, Field: func(s *Spec) any { return &s.Interval }},
	{Option: point.Option{
		Name: "granularity", Type: point.Choice, Default: ByFlow, Doc: "what a row aggregates", Choices: []string{ByFlow, ByHostPort, ByHost},
		ChoiceDocs: []string{
			"Addresses, protocol and both ports: shows which connection is affected. Most rows.",
			"Addresses, protocol and destination port: shows which service is affected. Aggregates its connections.",
			"Addresses only. Fewest rows; enough for the delay and loss of the path.",
		},
	}, Field: func(s *Spec) any { return &s.Granularity }},
	{Option: point.Option{Name: "trace", Type: point.Duration, Default: "1m", Min: "5s", Doc: "interval between path traces"}, Field: func(s *Spec) any { return &s.Trace }},
	{Option: point.Option{Name: "duration", Type: point.Duration, Min: "1s", Max: "3660d", Doc: "duration of a run"}, Field: func(s *Spec) any { return &s.Duration }},
	{Option: point.Option{Name: "min_gap", Type: point.Duration, Default: "0s", Min: "0s", Max: "1h", Doc: "minimum time between two marked packets"}},
}

// Settings are the fields of a specification that have bounds or a fixed set of values,
// with their defaults. Complete, Validate, the help of the command line and the form on the page
// follow from them.
func Settings() []Setting { return append([]Setting{{Option: moduleSetting()}}, settings...) }

func setting(name string) Setting {
	all := Settings()
	return all[slices.IndexFunc(all, func(s Setting) bool { return s.Name == name })]
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

// flowFields offers the fields of a five-tuple.
func flowFields() point.Option {
	return point.Option{
		Name: "flow", Type: point.List, Default: fivetuple.All.String(), Doc: "fields in which two flows differ", Choices: fivetuple.FieldNames(),
		ChoiceDocs: []string{
			"Source address. Required.",
			"Destination address. Required.",
			"Protocol: without, TCP, UDP and others between two hosts are one flow.",
			"Source port: without, all connections of a client to a service are one flow.",
			"Destination port: without, all services of a host are one flow.",
		},
	}
}

func defaultDuration(name string) Duration {
	d, _ := quantity.ParseDuration(setting(name).Default)
	return Duration(d)
}
