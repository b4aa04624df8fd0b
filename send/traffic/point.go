package traffic

import (
	"strconv"

	"pillion.dev/measure"
	"pillion.dev/measure/point"
	"pillion.dev/send/frame"
)

// Patterns of the option pattern.
const (
	train    = "train"
	pair     = "pair"
	rate     = "rate"
	chirp    = "chirp"
	periodic = "periodic"
	poisson  = "poisson"
	modelled = "model"
	listed   = "schedule"
)

// Packets is the option that asks for a row for each packet.
const Packets = "packets"

// countDefault is the default of the option count.
const countDefault = 50

// Point sends packets from each source to each of its destinations (seed 5).
var Point = point.Register(point.Descriptor{
	Name:   "send",
	Doc:    "packets sent at exact times from each source to its destinations, and when each really left",
	Action: "send packets at exact times, as far as the host's policy allows",
	Cost: "the packets sent, at most max_rate and max_packets for each pair; up to 0.3 ms of processor time for each packet, " +
		"less where they follow each other closely; one row in send each {interval} for each pair",
	Options: []point.Option{
		{Name: "pattern", Type: point.Choice, Default: train, Doc: "which packets are sent",
			Choices: []string{train, pair, rate, chirp, periodic, poisson, modelled, listed},
			ChoiceDocs: []string{"trains of count packets, gap apart", "pairs of packets as close as possible", "trains of count packets at a rate",
				"trains of count packets whose gaps shrink", "an endless stream with a fixed gap (RFC 3432)",
				"an endless Poisson stream with a mean gap (RFC 2330)", "times and sizes drawn from a model", "the packets of a schedule, repeated"}},
		{Name: "count", Type: point.Integer, Default: strconv.Itoa(countDefault), Min: "1", Max: "100000", Doc: "packets per train, of the patterns train, rate and chirp"},
		{Name: "gap", Type: point.Duration, Default: "1ms", Min: "0s", Max: "1h", Doc: "time between packets, the mean of poisson, the first of chirp; 0 in a train: as close as possible"},
		{Name: "every", Type: point.Duration, Default: "1s", Min: "1ms", Max: "24h", Doc: "time from the beginning of a train or schedule to the beginning of the next"},
		{Name: "rate", Type: point.Text, Default: "", Doc: "rate of the pattern rate in bit/s, such as 500k"},
		{Name: "factor", Type: point.Text, Default: "1.2", Doc: "factor by which the gaps of a chirp shrink"},
		{Name: "model", Type: point.Text, Default: "", Doc: "model of the pattern model: interval=exponential(1ms) size=pareto(1.5,100B) [seed=N] [count=N] [duration=TIME]"},
		{Name: "schedule", Type: point.Text, Default: "", Doc: "packets of the pattern schedule, one per line or separated by semicolons: TIME [size=BYTES] [payload=HEX] [together]"},
		{Name: "size", Type: point.Integer, Default: "100", Min: "60", Max: "1514", Doc: "length of the frame in bytes, without its frame check sequence"},
		{Name: "seed", Type: point.Integer, Default: "1", Min: "0", Doc: "seed of random times of periodic and poisson"},
		{Name: "protocol", Type: point.Choice, Default: frame.UDP, Choices: []string{frame.UDP, frame.TCP, frame.ICMP, frame.Raw},
			ChoiceDocs: []string{"UDP", "TCP segments of no connection", "ICMP echo requests", "another IP protocol, without a transport header"}, Doc: "protocol above IP"},
		{Name: "ip_protocol", Type: point.Integer, Default: "253", Min: "0", Max: "255", Doc: "IP protocol number of the protocol raw"},
		{Name: "port", Type: point.Integer, Default: "9", Min: "1", Max: "65535", Doc: "destination port"},
		{Name: "source_port", Type: point.Integer, Default: "50000", Min: "1", Max: "65535", Doc: "source port"},
		{Name: "tcp_flags", Type: point.Text, Default: "S", Doc: "TCP flags, letters of SAFRPU"},
		{Name: "dscp", Type: point.Integer, Default: "0", Min: "0", Max: "63", Doc: "differentiated services code point"},
		{Name: "ecn", Type: point.Integer, Default: "0", Min: "0", Max: "3", Doc: "ECN field"},
		{Name: "ttl", Type: point.Integer, Default: "64", Min: "1", Max: "255", Doc: "TTL or hop limit"},
		{Name: "delay", Type: point.Duration, Default: "3s", Min: "0s", Max: "1h", Doc: "time from the start of the task to the first packet, in which sources begin to mark"},
		{Name: "duration", Type: point.Duration, Default: "0s", Min: "0s", Max: "8760h", Doc: "length of the schedule; 0: while the session runs"},
		{Name: "max_rate", Type: point.Text, Default: "1M", Doc: "limit in bit/s for each pair; packets beyond it fail"},
		{Name: "max_packets", Type: point.Integer, Default: "100", Min: "1", Max: "10000000", Doc: "limit in packets per second for each pair; packets beyond it fail"},
		{Name: "late", Type: point.Duration, Default: "100us", Min: "0s", Max: "1h", Doc: "packets that leave later than this behind their time count as late"},
		{Name: "drop_late", Type: point.Duration, Default: "0s", Min: "0s", Max: "1h", Doc: "drop packets that would leave later than this behind their time; 0: send them"},
		{Name: "mechanism", Type: point.Text, Default: "", Doc: "force a mechanism by its name; empty: the best that works"},
		{Name: Packets, Type: point.Switch, Default: "false", Doc: "also store a row for each packet, in the stream send_packets"},
	},
	Check: func(o point.Options) error {
		_, err := Parse(o)
		return err
	},
	Schemas:   []*measure.Schema{&measure.Send, &measure.SendPackets},
	Placement: point.OnPairs,
	Views: []point.View{
		{Title: "Sent packets", Kind: point.Table, Stream: "send", GroupBy: []string{"agent", "destination", "traffic"},
			Columns: []string{"sent", "late", "failed", "rate_bits_per_second", "asked_bits_per_second", "lateness_p50_ns", "lateness_p99_ns", "mechanism"}},
		{Title: "Lateness of departures", Kind: point.Lines, Stream: "send", GroupBy: []string{"agent", "destination", "traffic"},
			Columns: []string{"lateness_p50_ns", "lateness_p99_ns"}, Weight: "sent"},
	},
})
