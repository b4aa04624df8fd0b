package model

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"pillion.dev/internal/quantity"
)

// largestPacket is the largest IP packet, beyond which no size is drawn.
const largestPacket = 65535

// Model describes the traffic of any number of flows.
type Model struct {
	// Interval is the time before each packet.
	Interval Distribution
	// Size is the packet size in bytes; what it counts (payload, packet or frame) is up to
	// the sender.
	Size *Law
	// Seed makes the draws repeatable. Without one in the text it is chosen at random.
	Seed uint64
	// Count and Duration end a flow after a number of packets or a time; 0 is no limit.
	Count    int64
	Duration time.Duration
}

// ParseModel reads a model whose files are on this host:
//
//	interval=exponential(1ms) size=pareto(1.5,100B) [seed=N] [count=N] [duration=D]
//
// Sizes are truncated at 65535 bytes.
func ParseModel(text string) (*Model, error) { return local.ParseModel(text) }

// ParseModel reads a model as the function ParseModel does.
func (p Parser) ParseModel(text string) (*Model, error) {
	fields, err := split(text, " \t\r\n")
	if err != nil {
		return nil, fmt.Errorf("model %q: %w", text, err)
	}
	m := &Model{Seed: rand.Uint64()}
	var seen []string
	for _, field := range fields {
		if field == "" {
			continue
		}
		key, value, _ := strings.Cut(field, "=")
		if slices.Contains(seen, key) {
			return nil, fmt.Errorf("model: %s is given twice", key)
		}
		seen = append(seen, key)
		if err := p.set(m, key, value); err != nil {
			return nil, fmt.Errorf("model: %w", err)
		}
	}
	for _, key := range []string{"interval", "size"} {
		if !slices.Contains(seen, key) {
			return nil, fmt.Errorf("model: %s= is missing, such as interval=exponential(1ms) size=constant(100B)", key)
		}
	}
	return m, m.LimitSize(0, largestPacket)
}

// set carries out one key=value of a model.
func (p Parser) set(m *Model, key, value string) (err error) {
	switch key {
	case "interval":
		m.Interval, err = p.ParseAs(value, Time)
	case "size":
		var d Distribution
		if d, err = p.ParseAs(value, Size); err == nil {
			m.Size = d.(*Law)
		}
	case "seed":
		if m.Seed, err = strconv.ParseUint(value, 10, 64); err != nil {
			err = faultf("%q is not a whole number from 0 to 2^64-1", value)
		}
	case "count":
		if m.Count, err = strconv.ParseInt(value, 10, 64); err != nil || m.Count <= 0 {
			err = faultf("%q is not a whole number greater than 0", value)
		}
	case "duration":
		if m.Duration, err = quantity.ParseDuration(value); err == nil && m.Duration <= 0 {
			err = faultf("%q is not greater than 0", value)
		}
	default:
		return faultf("unknown key %q; allowed are interval, size, seed, count and duration", key)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	return nil
}

// String is the model as ParseModel reads it, always with a seed.
func (m *Model) String() string {
	text := fmt.Sprintf("interval=%s size=%s seed=%d", m.Interval, m.Size, m.Seed)
	if m.Count > 0 {
		text += fmt.Sprintf(" count=%d", m.Count)
	}
	if m.Duration > 0 {
		text += " duration=" + quantity.FormatDuration(m.Duration)
	}
	return text
}

// LimitSize truncates the size to what a path or a frame carries, so that the law that is
// tested is the law of what is sent.
func (m *Model) LimitSize(least, most int) error {
	size, err := m.Size.truncated(math.Max(m.Size.min, float64(least)), math.Min(m.Size.max, float64(most)))
	if err != nil {
		return fmt.Errorf("size: %s: %w", m.Size, err)
	}
	m.Size = size
	return nil
}

// Packet is one packet of a flow.
type Packet struct {
	// Due is when the packet is to leave, from the start of the flow.
	Due time.Duration
	// Interval is the time since the packet before, or since the start.
	Interval time.Duration
	// Size in bytes.
	Size int
	// Paused says that the interval is an off period of an OnOff. On is the drawn length of
	// the on period that the packet belongs to, Burst its number from 0.
	Paused bool
	On     time.Duration
	Burst  int
}

// Flow draws the packets of one flow, in order.
type Flow struct {
	model          *Model
	interval, size Stream
	bursts         *Bursts // nil if the intervals do not come from an OnOff
	due            int64
	sent           int64
	ended          bool
}

// Flow begins the flow of the given number. Flows of one model are independent.
func (m *Model) Flow(number uint64) *Flow {
	f := &Flow{model: m, interval: m.Interval.Stream(Source(m.Seed, number, 0)), size: m.Size.Stream(Source(m.Seed, number, 1))}
	f.bursts, _ = f.interval.(*Bursts)
	return f
}

// Next returns the next packet; false at the end of the flow, which is also reached by an
// interval that ends later than int64 can hold (292 years).
func (f *Flow) Next() (Packet, bool) {
	if f.ended || f.model.Count > 0 && f.sent == f.model.Count {
		return Packet{}, false
	}
	interval, last := whole(f.interval.Draw()), int64(math.MaxInt64)
	if f.model.Duration > 0 {
		last = int64(f.model.Duration)
	}
	if interval > last-f.due {
		f.ended = true
		return Packet{}, false
	}
	f.due += interval
	f.sent++
	p := Packet{Due: time.Duration(f.due), Interval: time.Duration(interval), Size: int(whole(f.size.Draw()))}
	if f.bursts != nil {
		p.Paused, p.On, p.Burst = f.bursts.Paused(), time.Duration(whole(f.bursts.Length())), f.bursts.Number()
	}
	return p, true
}
