package bus

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/nats-io/nats.go"
)

// ErrNoLeader is a fleet none of whose servers leads at the moment: the call was not delivered.
var ErrNoLeader = errors.New("no server leads the fleet at the moment")

const (
	// callSubject is where the leading server of a fleet takes calls of the others.
	callSubject = "pillion.leader.call"
	// sizeHeader is the size of a call or an answer that is compressed, bytes.
	sizeHeader = "Pillion-Size"
	// CallMax limits a call and its answer, bytes.
	CallMax = 64 << 20
	// callsAtOnce limits the calls that a server answers at a time.
	callsAtOnce = 256
)

var callDecoder = sync.OnceValue(func() *zstd.Decoder {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(CallMax))
	if err != nil {
		panic(err) // of the options
	}
	return d
})

// Call sends a request to the leading server of a fleet and returns the answer: ErrNoLeader if there
// is none, ErrBusy if it has too many, ErrOffline without a link; none of these was carried out. Without
// a deadline it waits 30 s.
func (s *Server) Call(ctx context.Context, request []byte) ([]byte, error) {
	ctx, cancel := withDeadline(ctx)
	defer cancel()
	m, err := packCall(request)
	if err != nil {
		return nil, fmt.Errorf("call the leader: %w", err)
	}
	if !s.Connected() {
		return nil, fmt.Errorf("call the leader: %w", ErrOffline)
	}
	deadline, _ := ctx.Deadline()
	m.Subject = callSubject
	m.Header[timeoutHeader] = []string{formatWait(time.Until(deadline))}
	answer, err := s.conn.RequestMsgWithContext(ctx, m)
	if errors.Is(err, nats.ErrNoResponders) {
		err = ErrNoLeader
	}
	if err == nil {
		err = outcome(answer.Header)
	}
	var reply []byte
	if err == nil {
		reply, err = unpackCall(answer)
	}
	if err != nil {
		return nil, fmt.Errorf("call the leader: %w", err)
	}
	return reply, nil
}

// ServeCalls answers the calls of other servers, many at a time, until stop, which waits for the running
// ones. The context of a call ends with the caller's patience.
func (s *Server) ServeCalls(handler func(ctx context.Context, request []byte) []byte) (stop func(), err error) {
	slots := make(chan struct{}, callsAtOnce)
	var running sync.WaitGroup
	subscription, err := s.conn.Subscribe(callSubject, func(m *nats.Msg) {
		select {
		case slots <- struct{}{}:
		default:
			s.answerCall(m, reply(statusBusy, fmt.Errorf("%w: the leader has more than %d calls", ErrBusy, callsAtOnce)))
			return
		}
		running.Go(func() {
			defer func() { <-slots }()
			s.answerCall(m, s.call(m, handler))
		})
	})
	if err == nil {
		err = s.conn.FlushTimeout(closeTime)
	}
	if err != nil {
		return nil, fmt.Errorf("serve calls: %w", err)
	}
	return func() {
		// An error is a link that is down: then no call arrives.
		if subscription.Drain() == nil {
			_ = flush(s.conn)
		}
		running.Wait()
	}, nil
}

// call is the answer to one call.
func (s *Server) call(m *nats.Msg, handler func(context.Context, []byte) []byte) *nats.Msg {
	request, err := unpackCall(m)
	if err != nil {
		return reply(statusRejected, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), waitTime(m.Header))
	defer cancel()
	answer, err := packCall(handler(ctx, request))
	if err != nil {
		return reply(statusError, err)
	}
	answer.Header[statusHeader] = []string{statusOK}
	return answer
}

func (s *Server) answerCall(m, answer *nats.Msg) {
	answer.Subject = m.Reply
	if err := s.conn.PublishMsg(answer); err != nil {
		s.log.Warn("answer a call of another server", "error", err)
	}
}

// packCall makes the message of a call or an answer.
func packCall(content []byte) (*nats.Msg, error) {
	m := &nats.Msg{Data: content, Header: nats.Header{}}
	if len(content) > CallMax {
		return nil, fmt.Errorf("%d bytes, limit %d", len(content), CallMax)
	}
	if packed := compress(content); packed != nil {
		m.Data, m.Header = packed, nats.Header{sizeHeader: {strconv.Itoa(len(content))}}
	}
	if len(m.Data) > MaxPayload {
		return nil, fmt.Errorf("%d bytes after compression, limit %d", len(m.Data), MaxPayload)
	}
	return m, nil
}

// unpackCall returns the content of such a message.
func unpackCall(m *nats.Msg) ([]byte, error) {
	text, compressed := only(m.Header, sizeHeader)
	if !compressed {
		return m.Data, nil
	}
	size, err := strconv.Atoi(text)
	if err != nil || size < 1 || size > CallMax {
		return nil, fmt.Errorf("%w: size %.20q, want 1 to %d bytes", ErrRejected, text, CallMax)
	}
	content, err := callDecoder().DecodeAll(m.Data, nil)
	if err == nil && len(content) != size {
		err = fmt.Errorf("%d bytes, but the header says %d", len(content), size)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: decompress: %w", ErrRejected, err)
	}
	return content, nil
}
