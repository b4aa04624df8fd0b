package bus

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"pillion.dev/measure"
)

// Headers of messages.
const (
	// batchHeader is the envelope of a batch: layout number, epoch, sequence, rows,
	// oldest, checksum, size and agent; the epoch as 16 hexadecimal digits, the checksum as 8. The
	// size is the length of a compressed payload before compression, bytes, to which the checksum
	// applies; 0: not compressed. The agent is the one whose rows an aggregator sends; -: the sender.
	batchHeader = "Pillion-Batch"
	// statusHeader is the outcome of a request, reasonHeader the reason.
	statusHeader = "Pillion-Status"
	reasonHeader = "Pillion-Reason"
	// timeoutHeader is the timeout of a request, milliseconds.
	timeoutHeader = "Pillion-Timeout"
)

// Statuses of a reply.
const (
	statusOK       = "ok"
	statusRejected = "rejected" // permanently
	statusRetry    = "retry"
	statusBusy     = "busy"
	statusError    = "error" // of a control request
	statusRefused  = "refused"
	// statusUnsupported: the server does not know the layout, or the format of the payload.
	statusUnsupported = "unsupported"
)

var statusErrors = map[string]error{
	statusRejected: ErrRejected, statusBusy: ErrBusy, statusRefused: ErrRefused, statusUnsupported: ErrUnsupported,
}

// batchLayout is the layout of the header. Only the test of upgrades sets it, when it links a program.
var batchLayout = "1"

// itself is the agent in the header of a batch of its own.
const itself = "-"

const (
	reasonLimit = 512
	requestTime = 30 * time.Second // if the caller sets no deadline
	longestTime = time.Hour
)

// formatBatch is the header of a batch. Size is the length of the payload before compression, 0 if
// it is not compressed; of is the agent whose rows they are, empty for the sender.
func formatBatch(e *measure.Envelope, size int, of string) string {
	return fmt.Sprintf("%s %016x %d %d %d %08x %d %s", batchLayout, e.Epoch, e.Sequence, e.Rows, e.Oldest, e.Checksum, size, cmp.Or(of, itself))
}

// parsed is what the header of a batch says.
type parsed struct {
	measure.Envelope
	size int    // of a payload that is compressed, bytes; 0: it is not
	of   string // the agent for whom it is sent; empty: the sender
}

// parseBatch parses the header. It accepts only the canonical form that formatBatch writes; every
// error is ErrRejected, except for a later layout: ErrUnsupported.
func parseBatch(stream, text string) (p parsed, err error) {
	bad := func(cause string) (parsed, error) {
		return parsed{}, fmt.Errorf("%w: header %.100q: %s", ErrRejected, text, cause)
	}
	if !measure.ValidName(stream) {
		return parsed{}, fmt.Errorf("%w: invalid stream name %.100q", ErrRejected, stream)
	}
	fields := strings.Split(text, " ")
	layout, err := strconv.ParseUint(fields[0], 10, 16)
	known, _ := strconv.ParseUint(batchLayout, 10, 16)
	switch {
	case err != nil || layout == 0 || strconv.FormatUint(layout, 10) != fields[0]:
		return bad("no layout")
	case layout > known:
		return parsed{}, fmt.Errorf("%w: header layout %d, this server reads layout %d: update the server", ErrUnsupported, layout, known)
	case len(fields) != 8:
		return bad("want 8 fields")
	}
	epoch, err := strconv.ParseUint(fields[1], 16, 64)
	sequence, err2 := strconv.ParseUint(fields[2], 10, 64)
	rows, err3 := strconv.ParseUint(fields[3], 10, 31)
	oldest, err4 := strconv.ParseUint(fields[4], 10, 64)
	checksum, err5 := strconv.ParseUint(fields[5], 16, 32)
	size, err6 := strconv.ParseUint(fields[6], 10, 31)
	if err := errors.Join(err, err2, err3, err4, err5, err6); err != nil {
		return bad("invalid number")
	}
	p.Envelope = measure.Envelope{
		Key:  measure.Key{Stream: stream, Epoch: epoch, Sequence: sequence},
		Rows: int(rows), Oldest: oldest, Checksum: uint32(checksum),
	}
	if p.size = int(size); p.size > MaxPayload {
		return bad(fmt.Sprintf("the size of the payload is over %d bytes", MaxPayload))
	}
	if fields[7] != itself {
		if p.of = fields[7]; !ValidAgent(p.of) {
			return bad("invalid agent name")
		}
	}
	if fields[0]+strings.TrimPrefix(formatBatch(&p.Envelope, p.size, p.of), batchLayout) != text { // the layout may be an earlier one
		return bad("not in canonical form")
	}
	if oldest > sequence {
		return bad("oldest is above sequence")
	}
	return p, nil
}

// only returns the one value of a header, and whether there is exactly one.
func only(header nats.Header, key string) (string, bool) {
	values := header[key]
	if len(values) != 1 {
		return "", false
	}
	return values[0], true
}

// reply returns a reply, with the reason truncated to fit a header line.
func reply(status string, reason error) *nats.Msg {
	message := &nats.Msg{Header: nats.Header{statusHeader: {status}}}
	if reason != nil {
		message.Header[reasonHeader] = []string{oneLine(reason.Error())}
	}
	return message
}

func oneLine(text string) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == '\uFFFD' {
			return ' '
		}
		return r
	}, text)
	text = strings.TrimSpace(text)
	if len(text) > reasonLimit {
		text = strings.ToValidUTF8(text[:reasonLimit], "") + "..."
	}
	return text
}

// outcome returns the error in a reply; nil only for an explicit ok.
func outcome(header nats.Header) error {
	status, ok := only(header, statusHeader)
	if !ok {
		return errors.New("reply without status")
	}
	reason, ok := only(header, reasonHeader)
	if !ok {
		reason = "no reason given"
	}
	switch status {
	case statusOK:
		return nil
	case statusRetry, statusError:
		return errors.New(reason)
	}
	if kind := statusErrors[status]; kind != nil {
		return fmt.Errorf("%w: %s", kind, strings.TrimPrefix(reason, kind.Error()+": "))
	}
	return fmt.Errorf("reply with unknown status %.20q", status)
}

// waitTime returns the timeout of a request.
func waitTime(header nats.Header) time.Duration {
	text, _ := only(header, timeoutHeader)
	ms, err := strconv.ParseUint(text, 10, 63)
	if err != nil || ms == 0 {
		return requestTime
	}
	return time.Duration(min(ms, uint64(longestTime/time.Millisecond))) * time.Millisecond
}

func formatWait(wait time.Duration) string {
	return strconv.FormatInt(int64(math.Ceil(float64(wait)/float64(time.Millisecond))), 10)
}
