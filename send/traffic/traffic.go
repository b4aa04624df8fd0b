// Package traffic is what sessions send: the options of the point "send", their validation,
// and the schedule and headers that follow from them. A server validates with it what an
// agent then sends.
//
// It sends nothing: package send does. Files of the host are never read for a session.
package traffic

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"pillion.dev/internal/quantity"
	"pillion.dev/measure/point"
	"pillion.dev/send/frame"
	"pillion.dev/send/model"
	"pillion.dev/send/schedule"
)

// Traffic is a request to send.
type Traffic struct {
	// Limit of each pair.
	Limit Limit
	// Delay until the schedule starts, Duration after which it ends; 0: it does not.
	Delay, Duration time.Duration
	// Late is the lateness from which a packet counts as late, DropLate that from which it
	// is dropped; 0: never.
	Late, DropLate time.Duration
	Mechanism      string // empty: the best
	Packets        bool   // report each packet, too

	options point.Options
	rate    float64 // of the pattern rate
	factor  float64 // of chirps
	model   *model.Model
	lines   []schedule.Entry
}

// ErrTraffic marks options that contradict each other, or that cannot be sent.
var ErrTraffic = errors.New("invalid traffic")

// Limits of a schedule in a specification.
const (
	scheduleBytes = 64 << 10
	examined      = 200_000
)

// Parse reads complete options, each of which is valid by itself.
func Parse(o point.Options) (*Traffic, error) {
	t := &Traffic{
		Delay: o.Duration("delay"), Duration: o.Duration("duration"), Late: o.Duration("late"), DropLate: o.Duration("drop_late"),
		Mechanism: o.Text("mechanism"), Packets: o.Switch(Packets), options: o,
	}
	var err error
	if t.Limit.BitsPerSecond, err = quantity.ParseSize(o.Text("max_rate")); err != nil || t.Limit.BitsPerSecond == 0 {
		return nil, fmt.Errorf("%w: max_rate %q is not a number of bits per second, such as 1M", ErrTraffic, o.Text("max_rate"))
	}
	t.Limit.PacketsPerSecond = o.Integer("max_packets")
	if err := t.pattern(); err != nil {
		return nil, err
	}
	if err := t.checkHeaders(); err != nil {
		return nil, err
	}
	return t, t.checkLoad()
}

// pattern reads the options of the pattern, and refuses options of another one.
func (t *Traffic) pattern() (err error) {
	pattern := t.options.Text("pattern")
	if n := t.options.Integer("count"); n != countDefault && !slices.Contains([]string{train, rate, chirp}, pattern) {
		return fmt.Errorf("%w: count %d: the pattern %s has no trains; the option duration ends it", ErrTraffic, n, pattern)
	}
	for _, name := range []string{rate, modelled, listed} {
		switch given := t.options.Text(name) != ""; {
		case given && pattern != name:
			return fmt.Errorf("%w: the option %s needs the pattern %s", ErrTraffic, name, name)
		case !given && pattern == name:
			return fmt.Errorf("%w: the pattern %s needs the option %s", ErrTraffic, name, name)
		}
	}
	switch pattern {
	case rate:
		bits, err := quantity.ParseSize(t.options.Text(rate))
		if err != nil || bits == 0 {
			return fmt.Errorf("%w: rate %q is not a number of bits per second, such as 500k", ErrTraffic, t.options.Text(rate))
		}
		t.rate = float64(bits)
	case chirp:
		if t.factor, err = strconv.ParseFloat(t.options.Text("factor"), 64); err != nil {
			return fmt.Errorf("%w: factor %q is not a number", ErrTraffic, t.options.Text("factor"))
		}
	case modelled:
		// Without Open, so that a server cannot make an agent read files.
		if t.model, err = (model.Parser{}).ParseModel(t.options.Text(modelled)); err != nil {
			return fmt.Errorf("%w: %w", ErrTraffic, err)
		}
		if err := t.model.LimitSize(frame.MinBytes, frame.MaxBytes); err != nil {
			return fmt.Errorf("%w: model: %w", ErrTraffic, err)
		}
	case listed:
		return t.readLines()
	}
	return nil
}

// readLines reads the schedule. It has no flows and no frames: destinations are the session's.
func (t *Traffic) readLines() error {
	text := strings.ReplaceAll(t.options.Text(listed), ";", "\n")
	if len(text) > scheduleBytes {
		return fmt.Errorf("%w: schedule of %d bytes, limit %d", ErrTraffic, len(text), scheduleBytes)
	}
	read, err := schedule.ReadText(strings.NewReader(text))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrTraffic, err)
	}
	if len(read.Flows) > 0 {
		return fmt.Errorf("%w: the schedule of a session defines no flows: packets are sent to its destinations", ErrTraffic)
	}
	for e, err := range read.Packets() {
		if err != nil {
			return fmt.Errorf("%w: %w", ErrTraffic, err)
		}
		if e.Frame != nil {
			return fmt.Errorf("%w: the schedule of a session has no frames of its own", ErrTraffic)
		}
		if e.Size < frame.MinBytes || e.Size > frame.MaxBytes {
			return fmt.Errorf("%w: schedule: size %d is outside %d to %d bytes", ErrTraffic, e.Size, frame.MinBytes, frame.MaxBytes)
		}
		t.lines = append(t.lines, e)
	}
	return nil
}

// checkHeaders builds a header, and its smallest packet where the size is fixed.
func (t *Traffic) checkHeaders() error {
	h, err := t.Header(netip.IPv4Unspecified())
	if err != nil {
		return err
	}
	h.Source = h.Destination
	if t.model == nil && t.lines == nil {
		_, err = h.Build(int(t.options.Integer("size")), nil)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrTraffic, err)
	}
	return nil
}

// checkLoad compares the pattern with the limit: the mean of a random one, or else each
// packet of its first repetitions.
func (t *Traffic) checkLoad() error {
	s, err := t.schedule()
	if err != nil {
		return err
	}
	size := float64(t.options.Integer("size"))
	switch t.options.Text("pattern") {
	case modelled:
		return t.checkMean(t.model.Interval.Mean(), t.model.Size.Mean())
	case poisson:
		return t.checkMean(float64(t.options.Duration("gap")), size)
	}
	check, n := t.Limit.Check(), 0
	horizon := 2*t.options.Duration("every") + 10*time.Second
	for e, err := range s {
		if err != nil {
			return fmt.Errorf("%w: %w", ErrTraffic, err)
		}
		if err := check(&e); err != nil {
			return fmt.Errorf("%w: packet %d of the schedule, %v after its start: %w", ErrTraffic, n+1, e.Due, err)
		}
		if n++; n == examined || e.Due > horizon {
			break
		}
	}
	return nil
}

// checkMean compares means with the limit. A distribution may have none.
func (t *Traffic) checkMean(intervalNs, bytes float64) error {
	packets := 1e9 / intervalNs
	switch bits := packets * bytes * 8; {
	case packets > float64(t.Limit.PacketsPerSecond):
		return fmt.Errorf("%w: %.4g packets/s on average: %w: max_packets is %d", ErrTraffic, packets, ErrLimit, t.Limit.PacketsPerSecond)
	case bits > float64(t.Limit.BitsPerSecond) && !math.IsInf(bits, 1):
		return fmt.Errorf("%w: %.4g bit/s on average: %w: max_rate is %d", ErrTraffic, bits, ErrLimit, t.Limit.BitsPerSecond)
	}
	return nil
}

// Schedule is the sequence of packets. Trains and schedules are repeated; the train of a
// packet is the repetition.
func (t *Traffic) Schedule() (schedule.Schedule, error) {
	s, err := t.schedule()
	if err != nil || t.Duration == 0 {
		return s, err
	}
	return func(yield func(schedule.Entry, error) bool) {
		for e, err := range s {
			if err == nil && e.Due >= t.Duration || !yield(e, err) {
				return
			}
		}
	}, nil
}

func (t *Traffic) schedule() (s schedule.Schedule, err error) {
	count, size, gap := int(t.options.Integer("count")), int(t.options.Integer("size")), t.options.Duration("gap")
	endless := schedule.Trains{Count: math.MaxInt32, Every: t.options.Duration("every")}
	seed := uint64(t.options.Integer("seed"))
	switch t.options.Text("pattern") {
	case train:
		s, err = schedule.Train(count, size, gap, endless)
	case pair:
		s, err = schedule.Pair(size, endless)
	case rate:
		s, err = schedule.Rate(count, size, t.rate, endless)
	case chirp:
		s, err = schedule.Chirp(count, size, gap, t.factor, endless)
	case periodic:
		s, err = schedule.Periodic(0, size, gap, seed)
	case poisson:
		s, err = schedule.Poisson(0, size, gap, seed)
	case modelled:
		s = schedule.Traffic(t.model, 1, func(int) string { return "" }, nil)
	case listed:
		s = schedule.Repeat(t.lines, endless)
	}
	if err != nil {
		err = fmt.Errorf("%w: %w", ErrTraffic, err)
	}
	return s, err
}

// Header is the header of the packets to an address, without the link's addresses.
func (t *Traffic) Header(to netip.Addr) (*frame.Header, error) {
	h := &frame.Header{}
	port := uint16(t.options.Integer("port"))
	for _, field := range []struct{ name, value string }{
		{"to", netip.AddrPortFrom(to, port).String()}, {"proto", t.options.Text("protocol")}, {"source-port", t.options.Text("source_port")},
		{"ip-protocol", t.options.Text("ip_protocol")}, {"tcp-flags", t.options.Text("tcp_flags")}, {"dscp", t.options.Text("dscp")},
		{"ecn", t.options.Text("ecn")}, {"ttl", t.options.Text("ttl")},
	} {
		if err := h.Set(field.name, field.value); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrTraffic, err)
		}
	}
	return h, nil
}

// Protocol above IP, as package frame names it.
func (t *Traffic) Protocol() string { return t.options.Text("protocol") }

// String describes the packets.
func (t *Traffic) String() string {
	o := t.options
	what := ""
	switch bytes := o.Text("size") + " B"; o.Text("pattern") {
	case train:
		what = fmt.Sprintf("train of %s × %s, gap %s, every %s", o.Text("count"), bytes, o.Text("gap"), o.Text("every"))
	case pair:
		what = fmt.Sprintf("pair of %s, every %s", bytes, o.Text("every"))
	case rate:
		what = fmt.Sprintf("train of %s × %s at %sbit/s, every %s", o.Text("count"), bytes, o.Text("rate"), o.Text("every"))
	case chirp:
		what = fmt.Sprintf("chirp of %s × %s from %s, every %s", o.Text("count"), bytes, o.Text("gap"), o.Text("every"))
	case periodic:
		what = fmt.Sprintf("periodic, %s, gap %s", bytes, o.Text("gap"))
	case poisson:
		what = fmt.Sprintf("Poisson, %s, mean gap %s", bytes, o.Text("gap"))
	case modelled:
		what = fmt.Sprintf("interval %s, size %s", t.model.Interval, t.model.Size)
	case listed:
		what = fmt.Sprintf("schedule of %s, every %s", quantity.Count(len(t.lines), "packet"), o.Text("every"))
	}
	what += ", " + t.Protocol()
	if p := t.Protocol(); p == frame.UDP || p == frame.TCP {
		what += " port " + o.Text("port")
	}
	if o.Text("dscp") != "0" {
		what += ", DSCP " + o.Text("dscp")
	}
	return what
}
