package web

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"connectrpc.com/connect"
)

const (
	// Limits of request bodies, with and without a token, also when they are decompressed.
	bodyBytes                = 4 << 20
	unauthenticatedBodyBytes = 64 << 10
	// deflateRatio is the most that DEFLATE (RFC 1951) expands: 258 bytes from 2 bits.
	deflateRatio = 1032
)

// readBody reads the whole body within what the request may hold, and ends the deadline for that. The implementation of
// the protocol decompresses it, to at most bodyBytes: the request holds what that can take.
func readBody(w http.ResponseWriter, r *http.Request, who role, held *hold) error {
	if r.Method == http.MethodGet && r.URL.Query().Get("compression") == "gzip" {
		return connect.NewError(connect.CodeInvalidArgument, errors.New("compressed messages in a URL are not accepted; use POST"))
	}
	limit := int64(bodyBytes)
	compressed := isCompressed(r.Header)
	if who == anyone {
		if compressed {
			return connect.NewError(connect.CodeInvalidArgument, errors.New("compressed requests are not accepted without a token"))
		}
		limit = unauthenticatedBodyBytes
	}
	if r.ContentLength > limit {
		return largeBody(limit)
	}
	announced := limit
	if r.ContentLength >= 0 {
		announced = r.ContentLength
	}
	body, err := held.read(r.Body, announced)
	if err == nil {
		http.NewResponseController(w).SetReadDeadline(time.Time{})
		more := int64(len(body)) // decoding copies it
		if compressed {
			more = 2 * min(limit, deflateRatio*more)
		}
		err = held.take(more)
	}
	if fault := (*connect.Error)(nil); err != nil && !errors.As(err, &fault) {
		err = connect.NewError(connect.CodeInvalidArgument, fmt.Errorf("read request: %w", err))
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return err
}

func largeBody(limit int64) error {
	return connect.NewError(connect.CodeResourceExhausted, fmt.Errorf("request of more than %d bytes", limit))
}

// isCompressed reports whether the messages of a request may be compressed, in any of the protocols.
func isCompressed(header http.Header) bool {
	for _, name := range []string{"Content-Encoding", "Connect-Content-Encoding", "Grpc-Encoding"} {
		if encoding := header.Get(name); encoding != "" && encoding != "identity" {
			return true
		}
	}
	return false
}
