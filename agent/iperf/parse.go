package iperf

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"pillion.dev/measure"
)

// ErrOutput marks output of iperf3 that cannot be parsed.
var ErrOutput = errors.New("unexpected output of iperf3")

// document is the output of --json.
type document struct {
	Start     *start     `json:"start"`
	Intervals []interval `json:"intervals"`
	Error     string     `json:"error"`
}

// event is a line of --json-stream.
type event struct {
	Event string          `json:"event"`
	Data  json.RawMessage `json:"data"`
}

type start struct {
	Version    string `json:"version"`
	SystemInfo string `json:"system_info"`
	Timestamp  struct {
		Seconds float64 `json:"timesecs"`
	} `json:"timestamp"`
	Test struct {
		Protocol string `json:"protocol"`
	} `json:"test_start"`
	Connecting struct {
		Host string  `json:"host"`
		Port float64 `json:"port"`
	} `json:"connecting_to"`
}

type interval struct {
	Streams []numbers `json:"streams"`
	Sum     *numbers  `json:"sum"`
	Reverse *numbers  `json:"sum_bidir_reverse"`
}

// numbers are pointers, since many are present in some tests only.
type numbers struct {
	Socket      *float64 `json:"socket"`
	Start       *float64 `json:"start"`
	End         *float64 `json:"end"`
	Seconds     *float64 `json:"seconds"`
	Bytes       *float64 `json:"bytes"`
	Rate        *float64 `json:"bits_per_second"`
	Retransmits *float64 `json:"retransmits"`
	Window      *float64 `json:"snd_cwnd"`
	RTT         *float64 `json:"rtt"`
	Variation   *float64 `json:"rttvar"`
	Jitter      *float64 `json:"jitter_ms"`
	Lost        *float64 `json:"lost_packets"`
	Packets     *float64 `json:"packets"`
	Sender      *bool    `json:"sender"`
	Omitted     *bool    `json:"omitted"`
}

// reader turns output into rows and notes.
type reader struct {
	put  func(*measure.Schema, measure.Sample) error
	note func(key, value string) error
	// begin of the test by this host's clock. iperf3 reports whole seconds only, so
	// streamed output is timed here.
	begin time.Time
	now   func() time.Time
	rows  int
	style Style
	pid   int // of iperf3
	// started, if set, is told pid.
	started *atomic.Int64
	fault   string // error reported by iperf3
}

// read parses all output, with or without --json-stream.
func (r *reader) read(from io.Reader) error {
	objects := json.NewDecoder(from)
	for {
		var object struct {
			document
			event
		}
		err := objects.Decode(&object)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%w: %w", ErrOutput, err)
		}
		if object.Event != "" {
			err = r.event(object.event)
		} else {
			err = r.document(object.document)
		}
		if err != nil {
			return err
		}
	}
}

// begun says that iperf3 runs.
func (r *reader) begun(pid int) {
	r.pid = pid
	if r.started != nil {
		r.started.Store(int64(pid))
	}
}

func (r *reader) event(e event) error {
	var err error
	switch e.Event {
	case "start":
		var start start
		if err = json.Unmarshal(e.Data, &start); err == nil {
			r.begin = r.now()
			return r.start(&start)
		}
	case "interval":
		var i interval
		if err = json.Unmarshal(e.Data, &i); err == nil {
			if r.begin.IsZero() {
				r.begin = r.now()
			}
			return r.interval(i)
		}
	case "error":
		if err = json.Unmarshal(e.Data, &r.fault); err == nil {
			return nil
		}
	default: // events of later versions, and the end, whose sums are in the intervals
		return nil
	}
	return fmt.Errorf("%w: event %q: %w", ErrOutput, e.Event, err)
}

func (r *reader) document(d document) error {
	if d.Error != "" {
		r.fault = d.Error
	}
	if d.Start != nil {
		if s := d.Start.Timestamp.Seconds; s > 0 && s < 1<<33 {
			r.begin = time.UnixMicro(int64(s * 1e6))
		}
		if err := r.start(d.Start); err != nil {
			return err
		}
	}
	if r.begin.IsZero() {
		r.begin = r.now()
	}
	for _, i := range d.Intervals {
		if err := r.interval(i); err != nil {
			return err
		}
	}
	return nil
}

func (r *reader) start(s *start) error {
	var target string
	if s.Connecting.Host != "" {
		target = fmt.Sprintf("%s port %.0f", s.Connecting.Host, s.Connecting.Port)
	}
	for _, note := range []struct{ key, value string }{
		{"iperf3_version", s.Version}, {"system_info", s.SystemInfo}, {"protocol", s.Test.Protocol}, {"server", target},
	} {
		if note.value == "" {
			continue
		}
		if err := r.note(note.key, strings.ToValidUTF8(note.value, "\ufffd")); err != nil {
			return err
		}
	}
	return nil
}

func (r *reader) interval(i interval) error {
	switch r.style {
	case PerPacket:
		return nil // the capture has them
	case Aggregates:
		return r.aggregates(i)
	}
	for _, sum := range []*numbers{i.Sum, i.Reverse} {
		if sum != nil {
			if err := r.row(&Interval, r.common(sum, r.time(sum))); err != nil {
				return err
			}
		}
	}
	for k := range i.Streams {
		n := &i.Streams[k]
		sample := append(measure.Sample{r.time(n), integer(n.Socket)}, r.common(n, measure.Value{})[1:]...)
		if err := r.row(&Stream, append(sample, count(n.Window), count(n.RTT), count(n.Variation))); err != nil {
			return err
		}
	}
	return nil
}

// aggregates reports the streams of an interval as OML's iperf does: only what is known.
func (r *reader) aggregates(i interval) error {
	for k := range i.Streams {
		n := &i.Streams[k]
		common := measure.Sample{r.time(n), measure.Uint32Value(uint32(r.pid)), integer(n.Socket), number(n.Start), number(n.End)}
		for _, point := range []struct {
			schema *measure.Schema
			values measure.Sample
		}{
			{&Transfer, measure.Sample{count(n.Bytes)}},
			{&Losses, measure.Sample{count(n.Packets), integer(n.Lost)}},
			{&Jitter, measure.Sample{number(n.Jitter)}},
		} {
			if last := point.values[len(point.values)-1]; last.IsNull() {
				continue
			}
			if err := r.row(point.schema, append(slices.Clone(common), point.values...)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *reader) row(schema *measure.Schema, sample measure.Sample) error {
	r.rows++
	return r.put(schema, sample)
}

// time is the end of the interval.
func (r *reader) time(n *numbers) measure.Value {
	if n.End == nil || !(*n.End >= 0 && *n.End < 1e9) {
		return measure.TimeValue(r.begin)
	}
	return measure.TimeValue(r.begin.Add(time.Duration(*n.End * 1e9)))
}

func (r *reader) common(n *numbers, at measure.Value) measure.Sample {
	return measure.Sample{
		at, number(n.Start), number(n.End), number(n.Seconds), count(n.Bytes), number(n.Rate), count(n.Retransmits),
		number(n.Jitter), integer(n.Lost), count(n.Packets), truth(n.Sender), truth(n.Omitted),
	}
}

func number(n *float64) measure.Value { return value(n, measure.Float64Value) }

func truth(b *bool) measure.Value { return value(b, measure.BoolValue) }

// count is null for invalid values, such as -1 for unknown.
func count(n *float64) measure.Value {
	if n == nil || !(*n >= 0 && *n < math.MaxUint64) {
		return measure.Value{}
	}
	return measure.Uint64Value(uint64(*n))
}

func integer(n *float64) measure.Value {
	if n == nil || !(math.Abs(*n) < 1<<62) {
		return measure.Value{}
	}
	return measure.Int64Value(int64(*n))
}

// value is null without a number.
func value[T any](n *T, of func(T) measure.Value) measure.Value {
	if n == nil {
		return measure.Value{}
	}
	return of(*n)
}
