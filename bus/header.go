package bus

import (
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
	// oldest, checksum; the epoch as 16 hexadecimal digits, the checksum as 8. If the payload
	// is compressed, from layout 2 on, the compression and the size of the payload follow, bytes;
	// the checksum is that of the payload as it was. Last, from layout 3 on, is the agent whose rows
	// an aggregator sends.
	batchHeader = "Pillion-Batch"
	// acceptHeader is the compression that a server reads, in its replies to batches.
	acceptHeader = "Pillion-Accept"
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
	// Agents that do not know this status retry.
	statusUnsupported = "unsupported"
)

var statusErrors = map[string]error{
	statusRejected: ErrRejected, statusBusy: ErrBusy, statusRefused: ErrRefused, statusUnsupported: ErrUnsupported,
}

// Layouts of the header that this version writes: of a batch as it is, which every version
// reads, of a compressed one, and of one that is sent for another agent. It reads all layouts up to the last. Only tests of upgrades
// set them, when they link a program.
var (
	batchLayout      = "1"
	compressedLayout = "2"
	relayedLayout    = "3" // of a batch of another agent, compressed or not
)

const (
	reasonLimit = 512
	requestTime = 30 * time.Second // if the caller sets no deadline
	longestTime = time.Hour
)

func formatBatch(e *measure.Envelope) string { return formatLayout(batchLayout, e) }

// formatCompressed is the header of a batch whose payload, as in e, is sent compressed.
func formatCompressed(e *measure.Envelope) string {
	return formatLayout(compressedLayout, e) + formatSize(len(e.Payload))
}

// formatRelayed is the header of a batch of another agent; packed: its payload is sent compressed.
func formatRelayed(e *measure.Envelope, agent string, packed bool) string {
	text := formatLayout(relayedLayout, e)
	if packed {
		text += formatSize(len(e.Payload))
	}
	return text + " " + agent
}

func formatLayout(layout string, e *measure.Envelope) string {
	return fmt.Sprintf("%s %016x %d %d %d %08x", layout, e.Epoch, e.Sequence, e.Rows, e.Oldest, e.Checksum)
}

func formatSize(size int) string { return fmt.Sprintf(" %s %d", compression, size) }

// parsed is what the header of a batch says.
type parsed struct {
	measure.Envelope
	size int    // of a payload that is compressed, bytes; 0: it is not
	of   string // the agent for whom it is sent; empty: the sender
}

// parseBatch parses the header. It accepts only the canonical form that formatBatch, formatCompressed and
// formatRelayed write; every error is ErrRejected, except that of a later layout or another compression:
// ErrUnsupported.
func parseBatch(stream, text string) (p parsed, err error) {
	bad := func(cause string) (parsed, error) {
		return parsed{}, fmt.Errorf("%w: header %.100q: %s", ErrRejected, text, cause)
	}
	if !measure.ValidName(stream) {
		return parsed{}, fmt.Errorf("%w: invalid stream name %.100q", ErrRejected, stream)
	}
	fields := strings.Split(text, " ")
	layout, err := strconv.ParseUint(fields[0], 10, 16)
	known, _ := strconv.ParseUint(relayedLayout, 10, 16)
	switch {
	case err != nil || layout == 0 || strconv.FormatUint(layout, 10) != fields[0]:
		return bad("no layout")
	case layout > known:
		return parsed{}, fmt.Errorf("%w: header layout %d, this server reads layouts up to %d: update the server", ErrUnsupported, layout, known)
	case len(fields)%2 == 1 && layout >= 3:
		if p.of = fields[len(fields)-1]; !ValidAgent(p.of) {
			return bad("invalid agent name")
		}
		fields = fields[:len(fields)-1]
	}
	if len(fields) != 6 && (layout < 2 || len(fields) != 8) {
		return bad("want 6 fields, or 8 from layout 2 on, and one more from layout 3 on")
	}
	epoch, err := strconv.ParseUint(fields[1], 16, 64)
	sequence, err2 := strconv.ParseUint(fields[2], 10, 64)
	rows, err3 := strconv.ParseUint(fields[3], 10, 31)
	oldest, err4 := strconv.ParseUint(fields[4], 10, 64)
	checksum, err5 := strconv.ParseUint(fields[5], 16, 32)
	if err := errors.Join(err, err2, err3, err4, err5); err != nil {
		return bad("invalid number")
	}
	p.Envelope = measure.Envelope{
		Key:  measure.Key{Stream: stream, Epoch: epoch, Sequence: sequence},
		Rows: int(rows), Oldest: oldest, Checksum: uint32(checksum),
	}
	canonical := formatLayout(fields[0], &p.Envelope)
	if len(fields) == 8 {
		if fields[6] != compression {
			return parsed{}, fmt.Errorf("%w: compression %.20q, this server reads %s", ErrUnsupported, fields[6], compression)
		}
		if p.size, err = strconv.Atoi(fields[7]); err != nil || p.size < 1 || p.size > MaxPayload {
			return bad(fmt.Sprintf("the size of the payload is not from 1 to %d bytes", MaxPayload))
		}
		canonical += formatSize(p.size)
	}
	if p.of != "" {
		canonical += " " + p.of
	}
	if canonical != text {
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
