package client

import (
	"errors"
	"math"
	"slices"
	"strconv"
	"time"

	"pillion.dev/oml/omsp"
)

// reduce takes a request of the collector to send less: at a rate of n bytes/s, or
// aggregates over n ms. 0 ends it.
func (c *Client) reduce(what string, n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if what == "slow" {
		if c.rate != n {
			c.note(".", "slowed", strconv.FormatInt(n, 10))
		}
		c.rate = n
		c.wake()
		return
	}
	c.every = min(time.Duration(n), 1<<32) * time.Millisecond
	if n > 0 {
		return // with the next sample
	}
	for _, p := range slices.Clone(c.points) {
		if p.window != nil {
			p.window.end()
			p.aggregates(time.Time{}, nil)
		}
	}
}

// slice is how often a link that is slowed looks for a change.
const slice = 100 * time.Millisecond

// chunk is how many bytes are written at once. The caller holds the lock.
func (c *Client) chunk() int {
	if c.rate == 0 || c.closing {
		return chunkBytes
	}
	return int(max(1, min(float64(c.rate)*slice.Seconds(), chunkBytes)))
}

// pause waits for as long as that many bytes take at the rate that the collector requests.
// A client that closes is not delayed.
func (l *link) pause(sent int) {
	c := l.client
	for left := float64(sent); left > 0; {
		c.mu.Lock()
		rate, closing := float64(c.rate), c.closing
		c.mu.Unlock()
		if rate == 0 || closing {
			return
		}
		wait := min(time.Duration(left/rate*1e9), slice)
		select {
		case <-time.After(wait):
		case <-l.ended:
			return
		case <-c.ctx.Done():
			return
		}
		left -= wait.Seconds()*rate + 1
	}
}

// window collects samples of a point into one tuple of another: average, minimum and
// maximum of numbers, and the first of other values.
type window struct {
	to     *Point
	timer  *time.Timer
	at     time.Time // of the latest sample
	count  float64
	fields []aggregate
}

// aggregate is the state of one field.
type aggregate struct {
	kind             omsp.Type
	sum, least, most float64
	first            omsp.Value
}

func isNumber(t omsp.Type) bool {
	switch t {
	case omsp.Int32, omsp.Int64, omsp.Uint32, omsp.Uint64, omsp.Double:
		return true
	}
	return false
}

// aggregates reports whether a sample goes into a window because the collector requests
// that. The caller holds the lock.
func (p *Point) aggregates(at time.Time, values []omsp.Value) bool {
	c := p.client
	if p.every != c.every {
		if c.every > 0 && p.window == nil && !p.openWindow() {
			return false
		}
		p.every = c.every
		c.note("."+p.schema.Name, "aggregated", strconv.FormatInt(c.every.Milliseconds(), 10))
	}
	if p.every == 0 {
		return false
	}
	w := p.window
	if w.count == 0 {
		w.timer = time.AfterFunc(p.every, func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			w.end()
		})
	}
	w.add(at, values)
	return true
}

// openWindow creates the point of the aggregates.
func (p *Point) openWindow() bool {
	w := &window{}
	var fields []omsp.Field
	for _, f := range p.schema.Fields {
		w.fields = append(w.fields, aggregate{kind: f.Type})
		if !isNumber(f.Type) {
			fields = append(fields, f)
			continue
		}
		for _, what := range []string{"_avg", "_min", "_max"} {
			fields = append(fields, omsp.Field{Name: f.Name + what, Type: omsp.Double})
		}
	}
	var err error
	if w.to, err = p.client.point(p.schema.Name+"_aggregate", fields); err != nil {
		p.client.o.Log.Warn("aggregate samples, as the collector requests", "error", err)
		return false
	}
	p.window = w
	return true
}

func (w *window) add(at time.Time, values []omsp.Value) {
	w.count++
	w.at = at
	for i := range w.fields {
		f, v := &w.fields[i], &values[i]
		if !isNumber(f.kind) {
			if w.count == 1 {
				f.first = copyOf(v)
			}
			continue
		}
		x := numberOf(v)
		if w.count == 1 {
			f.sum, f.least, f.most = 0, x, x
		}
		f.sum, f.least, f.most = f.sum+x, min(f.least, x), max(f.most, x)
	}
}

func numberOf(v *omsp.Value) float64 {
	switch v.Type {
	case omsp.Double:
		return v.Double()
	case omsp.Int32, omsp.Int64:
		return float64(v.Int())
	case omsp.Uint32, omsp.Uint64:
		return float64(v.Uint())
	}
	return math.NaN()
}

// copyOf is a value whose memory is its own.
func copyOf(v *omsp.Value) (c omsp.Value) {
	switch {
	case v.Type.IsVector():
		c.SetElements(v.Type, slices.Clone(v.Elements()))
	case v.Type == omsp.String:
		c.SetString(string(v.Bytes()))
	case v.Type == omsp.Blob:
		c.SetBlob(slices.Clone(v.Bytes()))
	default:
		c = *v
	}
	return c
}

// end turns the window into a tuple, unless it is empty. The caller holds the lock.
func (w *window) end() {
	if w.count == 0 {
		return
	}
	w.timer.Stop()
	var values []omsp.Value
	for i := range w.fields {
		f := &w.fields[i]
		if !isNumber(f.kind) {
			values = append(values, f.first)
			continue
		}
		for _, x := range []float64{f.sum / w.count, f.least, f.most} {
			var v omsp.Value
			v.SetDouble(x)
			values = append(values, v)
		}
	}
	w.count = 0
	t := omsp.Tuple{Schema: &w.to.schema, Time: w.at.Sub(w.to.client.start).Seconds(), Seq: w.to.seq + 1, Values: values}
	text, err := omsp.Append(nil, omsp.Text, &t)
	if err == nil {
		err = w.to.put(text)
	}
	if err != nil && !errors.Is(err, ErrDropped) { // drops are counted
		w.to.client.o.Log.Warn("send aggregates", "error", err)
	}
}
