package estimator

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"

	"pillion.dev/send/arrival"
)

// The protocol between a sender and a receiver: the sender opens a TCP connection and writes
// requests, each a line of JSON; the receiver answers each with a line. The first request
// names the flow; others begin a round, count its arrivals, or fetch them. The receiver
// sends nothing else, and nothing to any other address.

// request is one of its fields.
type request struct {
	Flow  *flowRequest  `json:"flow,omitempty"`
	Begin *beginRequest `json:"begin,omitempty"`
	// Arrived asks how many of the first packets of the round have arrived.
	Arrived *rangeRequest `json:"arrived,omitempty"`
	// Arrivals asks when they did, at most mostArrivals at a time.
	Arrivals *rangeRequest `json:"arrivals,omitempty"`
}

type flowRequest struct {
	Token           string     `json:"token,omitempty"`
	Source          netip.Addr `json:"source"`
	Protocol        string     `json:"protocol"`
	SourcePort      uint16     `json:"source_port"`
	DestinationPort uint16     `json:"destination_port"`
}

type beginRequest struct {
	First   uint32 `json:"first"`
	Trains  int    `json:"trains"`
	Packets int    `json:"packets"`
}

// rangeRequest is of the packets from From on, by train and number.
type rangeRequest struct {
	From  int `json:"from"`
	Count int `json:"count"`
}

// answer to a request.
type answer struct {
	Error    string  `json:"error,omitempty"`
	Arrived  int     `json:"arrived,omitempty"`
	Arrivals []int64 `json:"arrivals,omitempty"`
}

const (
	requestBytes = 4 << 10 // longest line of a request
	answerBytes  = 1 << 20 // longest line of an answer
	mostArrivals = 16 << 10
)

var errProtocol = errors.New("invalid message")

// parseRequest reads a line of a sender.
func parseRequest(line []byte) (r request, err error) {
	decoder := json.NewDecoder(bytes.NewReader(line))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&r); err != nil {
		return r, fmt.Errorf("%w: %w", errProtocol, err)
	}
	given := 0
	for _, field := range []bool{r.Flow != nil, r.Begin != nil, r.Arrived != nil, r.Arrivals != nil} {
		if field {
			given++
		}
	}
	switch {
	case given != 1:
		return r, fmt.Errorf("%w: %d requests in a line", errProtocol, given)
	case r.Arrived != nil && !r.Arrived.within(arrival.Limit):
		return r, fmt.Errorf("%w: packets %d to %d", errProtocol, r.Arrived.From, r.Arrived.Count)
	case r.Arrivals != nil && !r.Arrivals.within(mostArrivals):
		return r, fmt.Errorf("%w: %d packets from %d: the limit is %d at a time", errProtocol, r.Arrivals.Count, r.Arrivals.From, mostArrivals)
	}
	return r, nil
}

// within reports whether the range lies in a round and has at most so many packets.
func (r *rangeRequest) within(limit int) bool {
	return r.From >= 0 && r.Count > 0 && r.Count <= limit && r.From <= arrival.Limit-r.Count
}

// lines reads lines of at most so many bytes.
func lines(in io.Reader, limit int) *bufio.Scanner {
	s := bufio.NewScanner(in)
	s.Buffer(make([]byte, 0, 4096), limit)
	return s
}

// next reads a line.
func next(s *bufio.Scanner) ([]byte, error) {
	if s.Scan() {
		return s.Bytes(), nil
	}
	if err := s.Err(); err != nil {
		return nil, err
	}
	return nil, io.EOF
}

// write writes a line.
func write(out io.Writer, message any) error {
	line, err := json.Marshal(message)
	if err != nil {
		return err
	}
	_, err = out.Write(append(line, '\n'))
	return err
}
