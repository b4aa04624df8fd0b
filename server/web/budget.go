package web

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"

	"connectrpc.com/connect"

	"pillion.dev/internal/quota"
)

const (
	defaultRequestBytes = 16 << 20
	// requestBytes is what a request takes besides its header and body: a goroutine and the buffers of a stream.
	requestBytes = 16 << 10
	// shares of the total.
	shares = 4
)

// budget bounds the memory of requests in progress: of a source and of a token to a share, of a source without
// tokens to a quarter of a share, and of all to four shares, an eighth of which is reserved for loopback, operators
// and administrators.
type budget struct {
	share    int64
	exceeded func(source string, err error)

	mutex sync.Mutex
	used  int64
	of    map[originator]int64
}

// originator is a source address, for its requests with or without a token, or a token.
type originator struct {
	name  string
	known bool
}

// hold is what one request takes of a budget.
type hold struct {
	budget   *budget
	of       []originator
	reserved bool
	bytes    int64
}

// begin takes what a request needs before its body is read.
func (b *budget) begin(r *http.Request, who caller) (*hold, error) {
	h := &hold{budget: b, of: []originator{{"address " + quota.Source(who.remote), who.role > anyone}}, reserved: who.role >= operator || who.remote.IsLoopback()}
	if who.role > anyone {
		h.of = append(h.of, originator{"token " + who.token, true})
	}
	size := int64(requestBytes + len(r.RequestURI))
	for name, values := range r.Header {
		for _, value := range values {
			size += int64(len(name) + len(value))
		}
	}
	return h, h.take(size)
}

// take takes more bytes until release, or returns why it cannot.
func (h *hold) take(bytes int64) error {
	b := h.budget
	b.mutex.Lock()
	defer b.mutex.Unlock()
	for _, o := range h.of {
		limit, unit := b.share, "bytes of requests in progress for each source address and token"
		if !o.known {
			limit, unit = limit/4, "bytes of requests in progress without a token for each source address"
		}
		if b.of[o]+bytes > limit {
			err := &quota.Error{Quota: "request_bytes", Limit: limit, Unit: unit, What: fmt.Sprintf("hold another %d bytes", bytes), Later: true}
			b.exceeded(o.name, err)
			return connect.NewError(connect.CodeResourceExhausted, err)
		}
	}
	total := shares * b.share
	if !h.reserved {
		total -= total / 8
	}
	if b.used+bytes > total {
		return connect.NewError(connect.CodeUnavailable, fmt.Errorf("requests in progress use %d bytes already; try again in a few seconds", b.used))
	}
	h.count(bytes)
	return nil
}

// count is called with the mutex.
func (h *hold) count(bytes int64) {
	h.bytes += bytes
	h.budget.used += bytes
	for _, o := range h.of {
		if h.budget.of[o] += bytes; h.budget.of[o] == 0 {
			delete(h.budget.of, o)
		}
	}
}

// release gives bytes back.
func (h *hold) release(bytes int64) {
	h.budget.mutex.Lock()
	defer h.budget.mutex.Unlock()
	h.count(-bytes)
}

// end gives all of them back.
func (h *hold) end() { h.release(h.bytes) }

// read reads a body of at most limit bytes, and takes the memory for it as it grows.
func (h *hold) read(from io.Reader, limit int64) (body []byte, err error) {
	for err == nil && int64(len(body)) <= limit {
		if len(body) == cap(body) {
			more := min(max(4<<10, int64(len(body))), limit+1-int64(len(body)))
			if err := h.take(more); err != nil {
				return nil, err
			}
			body = append(make([]byte, 0, cap(body)+int(more)), body...)
		}
		var n int
		n, err = from.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
	}
	switch {
	case int64(len(body)) > limit:
		return nil, largeBody(limit)
	case !errors.Is(err, io.EOF):
		return nil, err
	}
	return body, nil
}
