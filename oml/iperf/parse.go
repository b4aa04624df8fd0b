package iperf

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"pillion.dev/internal/iperf3"
	"pillion.dev/measure"
)

// ErrOutput marks output of iperf3 that cannot be parsed.
var ErrOutput = errors.New("unexpected output of iperf3")

// reader turns output into rows and notes.
type reader struct {
	put  func(*measure.Schema, measure.Sample) error
	note func(key, value string) error
	// begin of the test by this host's clock. iperf3 reports whole seconds only, so
	// streamed output is timed here.
	begin time.Time
	now   func() time.Time
	// omit is the time after which the times of intervals begin at 0 again.
	omit  time.Duration
	rows  int
	style Style
	pid   int // of iperf3
	// started, if set, is told pid.
	started *atomic.Int64
	fault   string // error reported by iperf3
}

// read parses all output, with or without --json-stream.
func (r *reader) read(from io.Reader) error {
	objects := iperf3.NewDecoder(from)
	for streamed := false; ; {
		text, err := objects.Next()
		if err == io.EOF {
			return nil
		}
		var object iperf3.Object
		if err == nil {
			err = json.Unmarshal(text, &object)
		}
		switch {
		case err != nil:
			return fmt.Errorf("%w: %w", ErrOutput, err)
		case object.Event != "":
			streamed = true
			err = r.event(object)
		case !streamed: // otherwise it repeats the events
			err = r.document(object)
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

func (r *reader) event(e iperf3.Object) error {
	var err error
	switch e.Event {
	case "start":
		var start iperf3.Start
		if err = json.Unmarshal(e.Data, &start); err == nil {
			r.begin = r.now()
			return r.start(&start)
		}
	case "interval":
		var i iperf3.Interval
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

func (r *reader) document(d iperf3.Object) error {
	if d.Error != "" {
		r.fault = d.Error
	}
	if d.Start != nil {
		at := d.Start.Timestamp
		if s := cmp.Or(at.Millis.Value/1e3, at.Seconds.Value); s > 0 && s < 1<<33 {
			r.begin = time.UnixMicro(int64(math.Round(s * 1e6)))
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

func (r *reader) start(s *iperf3.Start) error {
	if omit := s.Test.Omit.Value; omit > 0 && omit < secondsMax {
		r.omit = time.Duration(omit * 1e9)
	}
	var target string
	if s.Connecting.Host != "" {
		target = fmt.Sprintf("%s port %.0f", s.Connecting.Host, s.Connecting.Port.Value)
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

func (r *reader) interval(i iperf3.Interval) error {
	switch r.style {
	case PerPacket:
		return nil // the capture has them
	case Aggregates:
		return r.aggregates(i)
	}
	for _, sum := range []*iperf3.Numbers{i.Sum, i.Reverse} {
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
func (r *reader) aggregates(i iperf3.Interval) error {
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

// secondsMax bounds times of iperf3, s.
const secondsMax = 1e9

// time is the end of the interval.
func (r *reader) time(n *iperf3.Numbers) measure.Value {
	at := r.begin
	if n.Omitted == nil || !*n.Omitted {
		at = at.Add(r.omit)
	}
	if end := n.End.Value; end >= 0 && end < secondsMax {
		at = at.Add(time.Duration(end * 1e9))
	}
	return measure.TimeValue(at)
}

func (r *reader) common(n *iperf3.Numbers, at measure.Value) measure.Sample {
	return measure.Sample{
		at, number(n.Start), number(n.End), number(n.Seconds), count(n.Bytes), number(n.Rate), count(n.Retransmits),
		number(n.Jitter), integer(n.Lost), count(n.Packets), truth(n.Sender), truth(n.Omitted),
	}
}

func number(n iperf3.Number) measure.Value {
	if !n.Known {
		return measure.Value{}
	}
	return measure.Float64Value(n.Value)
}

func truth(b *bool) measure.Value {
	if b == nil {
		return measure.Value{}
	}
	return measure.BoolValue(*b)
}

// count is null for invalid values, such as -1 for unknown.
func count(n iperf3.Number) measure.Value {
	if !n.Known || !(n.Value >= 0 && n.Value < math.MaxUint64) {
		return measure.Value{}
	}
	return measure.Uint64Value(uint64(n.Value))
}

func integer(n iperf3.Number) measure.Value {
	if !n.Known || !(math.Abs(n.Value) < 1<<62) {
		return measure.Value{}
	}
	return measure.Int64Value(int64(n.Value))
}
