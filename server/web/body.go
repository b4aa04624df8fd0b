package web

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"connectrpc.com/connect"
	"github.com/klauspost/compress/gzip"
)

const (
	// Limits of request bodies, with and without a token, also when they are decompressed.
	bodyBytes                = 4 << 20
	unauthenticatedBodyBytes = 64 << 10
	// envelopeBytes precede a message of gRPC and of streams of Connect: flags and length.
	envelopeBytes      = 5
	envelopeCompressed = 1
)

// readBody reads and decompresses the whole body within what the request may hold, and ends the deadline for that.
func readBody(w http.ResponseWriter, r *http.Request, who role, held *hold) error {
	if r.Method == http.MethodGet && r.URL.Query().Get("compression") == "gzip" {
		return connect.NewError(connect.CodeInvalidArgument, errors.New("compressed messages in a URL are not accepted; use POST"))
	}
	limit := int64(bodyBytes)
	if who == anyone {
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
		body, err = decompress(r.Header, body, limit, held)
	}
	if err == nil {
		err = held.take(int64(len(body))) // decoding copies it
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

// decompress returns a body, or the messages in it, without compression by gzip. What is compressed otherwise, or
// is not well-formed, is left as it is, for the protocol's implementation to refuse.
func decompress(header http.Header, body []byte, limit int64, held *hold) ([]byte, error) {
	kind := header.Get("Content-Type")
	encoding := "Content-Encoding"
	switch {
	case strings.HasPrefix(kind, "application/grpc"):
		encoding = "Grpc-Encoding"
	case strings.HasPrefix(kind, "application/connect+"):
		encoding = "Connect-Content-Encoding"
	}
	if header.Get(encoding) != "gzip" {
		return body, nil
	}
	if encoding == "Content-Encoding" {
		header.Del(encoding)
		return gunzip(body, limit, held)
	}
	var all []byte
	for rest := body; len(rest) > 0; {
		size := envelopeBytes
		if len(rest) >= envelopeBytes {
			size += int(binary.BigEndian.Uint32(rest[1:]))
		}
		if size > len(rest) {
			return append(all, rest...), nil
		}
		message, flags := rest[envelopeBytes:size], rest[0]
		rest = rest[size:]
		if flags&envelopeCompressed != 0 {
			var err error
			if message, err = gunzip(message, limit-int64(len(all)), held); err != nil {
				return nil, err
			}
		}
		all = binary.BigEndian.AppendUint32(append(all, flags&^envelopeCompressed), uint32(len(message)))
		all = append(all, message...)
	}
	return all, nil
}

// gunzip decompresses; the request holds the result in place of the compressed bytes.
func gunzip(compressed []byte, limit int64, held *hold) ([]byte, error) {
	reader, err := gzip.NewReader(bytes.NewReader(compressed))
	if err != nil {
		return nil, fmt.Errorf("decompress: %w", err)
	}
	plain, err := held.read(reader, limit)
	if err == nil {
		held.release(int64(len(compressed)))
	}
	return plain, err
}
