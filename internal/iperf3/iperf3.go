// Package iperf3 reads the JSON that iperf3 3.1 and later print, in the form that current
// versions give it. It runs nothing and does not know what the numbers are used for.
//
// What differs between versions, by their sources and release notes:
//
//	to 3.1   numbers that do not exist are nan, -nan or inf, which is no JSON; later null
//	to 3.6   intervals do not say whether this end is the sender
//	3.7-3.10 with --bidir the sums of both directions have the same names; later the sums of the
//	         second direction end in _bidir_reverse
//	3.17     --json-stream prints an event at a time
//	3.18     --json-stream-full-output prints the whole result behind the events
//	3.20     the start has milliseconds
package iperf3

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"strconv"
)

// Object is the result of --json or an event of --json-stream.
type Object struct {
	Start     *Start     `json:"start"`
	Intervals []Interval `json:"intervals"`
	Error     string     `json:"error"`
	// Event is empty in a result.
	Event string          `json:"event"`
	Data  json.RawMessage `json:"data"`
}

// Start describes the test.
type Start struct {
	Version    string `json:"version"`
	SystemInfo string `json:"system_info"`
	Timestamp  struct {
		Seconds Number `json:"timesecs"` // since 1970
		Millis  Number `json:"timemillisecs"`
	} `json:"timestamp"`
	Test struct {
		Protocol string `json:"protocol"`
		// Omit is the time after which iperf3 counts from 0 again, seconds.
		Omit Number `json:"omit"`
	} `json:"test_start"`
	Connecting struct {
		Host string `json:"host"`
		Port Number `json:"port"`
	} `json:"connecting_to"`
}

// Interval has the numbers of each stream and their sums.
type Interval struct {
	Streams []Numbers `json:"streams"`
	Sum     *Numbers  `json:"sum"`
	Reverse *Numbers  `json:"sum_bidir_reverse"`
}

// Numbers are of one stream or of all in one direction. Which are known depends on the version,
// the protocol and the end.
type Numbers struct {
	Socket      Number `json:"socket"`
	Start       Number `json:"start"` // s
	End         Number `json:"end"`   // s
	Seconds     Number `json:"seconds"`
	Bytes       Number `json:"bytes"`
	Rate        Number `json:"bits_per_second"`
	Retransmits Number `json:"retransmits"`
	Window      Number `json:"snd_cwnd"` // bytes
	RTT         Number `json:"rtt"`      // us
	Variation   Number `json:"rttvar"`   // us
	Jitter      Number `json:"jitter_ms"`
	Lost        Number `json:"lost_packets"`
	Packets     Number `json:"packets"`
	Sender      *bool  `json:"sender"`
	Omitted     *bool  `json:"omitted"`
}

// Number is a number that may be unknown.
type Number struct {
	Value float64
	Known bool
}

// UnmarshalJSON takes whatever is not a finite number for unknown, so that one value never
// costs the others.
func (n *Number) UnmarshalJSON(text []byte) error {
	v, err := strconv.ParseFloat(string(text), 64)
	*n = Number{}
	if err == nil && !math.IsInf(v, 0) && !math.IsNaN(v) {
		*n = Number{v, true}
	}
	return nil
}

// Decoder reads objects one after the other.
type Decoder struct{ in *json.Decoder }

// NewDecoder reads from the standard output of iperf3.
func NewDecoder(from io.Reader) *Decoder {
	d := json.NewDecoder(&cleaner{in: bufio.NewReader(from)})
	d.UseNumber()
	return &Decoder{d}
}

// Next returns the text of the next object, which is available as soon as iperf3 has printed
// it, or io.EOF.
func (d *Decoder) Next() (json.RawMessage, error) {
	var out bytes.Buffer
	err := d.value(&out, depthMax)
	return out.Bytes(), err
}

const depthMax = 100

// value copies a value and renames keys that occur twice in an object.
func (d *Decoder) value(out *bytes.Buffer, depth int) error {
	token, err := d.in.Token()
	if err != nil {
		return err
	}
	delimiter, nested := token.(json.Delim)
	if !nested {
		text, err := json.Marshal(token)
		out.Write(text)
		return err
	}
	if depth == 0 {
		return errors.New("nested too deeply")
	}
	out.WriteString(delimiter.String())
	seen := map[string]bool{}
	for first := true; d.in.More(); first = false {
		if !first {
			out.WriteByte(',')
		}
		if delimiter == '{' {
			token, err := d.in.Token()
			if err != nil {
				return unexpected(err)
			}
			name, _ := token.(string)
			if seen[name] {
				name += "_bidir_reverse"
			}
			seen[name] = true
			text, _ := json.Marshal(name)
			out.Write(append(text, ':'))
		}
		if err := d.value(out, depth-1); err != nil {
			return unexpected(err)
		}
	}
	token, err = d.in.Token()
	if err != nil {
		return unexpected(err)
	}
	_, err = fmt.Fprint(out, token)
	return err
}

// unexpected is for an end within a value.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// words are texts, which are left alone, and numbers that do not exist.
var words = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|[-+]?(?i:nan(?:\([^)]*\))?|inf(?:inity)?)`)

// cleaner replaces numbers that do not exist by null, a line at a time: no text of JSON has a
// line feed.
type cleaner struct {
	in   *bufio.Reader
	line []byte
	err  error
}

func (c *cleaner) Read(p []byte) (int, error) {
	if len(c.line) == 0 && c.err == nil {
		c.line, c.err = c.in.ReadBytes('\n')
		c.line = words.ReplaceAllFunc(c.line, func(word []byte) []byte {
			if word[0] == '"' {
				return word
			}
			return []byte("null")
		})
	}
	n := copy(p, c.line)
	c.line = c.line[n:]
	if n == 0 {
		return 0, c.err
	}
	return n, nil
}
