package omsp

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Content is the encoding of tuples.
type Content uint8

// Encodings of tuples.
const (
	Text Content = iota
	Binary
)

// String returns the name in headers.
func (c Content) String() string {
	if c == Binary {
		return "binary"
	}
	return "text"
}

// Header is what a client sends before its tuples.
type Header struct {
	Protocol int
	// Domain names the experiment; empty if the client has none.
	Domain string
	// Start is the client's start, seconds since 1970.
	Start int64
	// Sender names the client.
	Sender string
	// App is the name of the application.
	App     string
	Schemas []Schema
	Content Content
	// Extra are lines with keys that the protocol does not define, such as a token.
	Extra map[string]string
}

// noDomain is what a C client without a domain sends (printf of NULL).
const noDomain = "(null)"

// set parses one line of a header.
func (h *Header) set(line string, limits Limits) (err error) {
	key, value, found := strings.Cut(line, ":")
	if !found {
		return fmt.Errorf("%w: line %q without a colon", ErrHeader, line)
	}
	value = strings.TrimSpace(value)
	switch key = strings.TrimSpace(key); key {
	case "protocol":
		h.Protocol, err = strconv.Atoi(value)
		if err != nil || h.Protocol < MinProtocol || h.Protocol > MaxProtocol {
			return fmt.Errorf("%w: protocol %q: versions %d to %d are supported", ErrHeader, value, MinProtocol, MaxProtocol)
		}
	case "domain", "experiment-id":
		if h.Domain = value; value == noDomain {
			h.Domain = ""
		}
	case "start-time", "start_time":
		if h.Start, err = startTime(value); err != nil {
			return err
		}
	case "sender-id":
		h.Sender = value
	case "app-name":
		h.App = value
	case "content":
		return h.setContent(value)
	case "schema":
		return h.setSchema(value, limits)
	default:
		if h.Extra == nil {
			h.Extra = map[string]string{}
		}
		h.Extra[key] = value
	}
	return nil
}

func (h *Header) setContent(value string) error {
	switch strings.ToLower(value) {
	case "text":
		h.Content = Text
	case "binary":
		h.Content = Binary
	default:
		return fmt.Errorf("%w: content %q: use text or binary", ErrHeader, value)
	}
	return nil
}

func (h *Header) setSchema(value string, limits Limits) error {
	s, err := ParseSchema(value)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrHeader, err)
	}
	if len(h.Schemas) >= limits.Schemas || len(s.Fields) > limits.Fields {
		return fmt.Errorf("%w: schema %s: at most %d streams of %d fields", ErrLimit, s.Name, limits.Schemas, limits.Fields)
	}
	h.Schemas = append(h.Schemas, s)
	return nil
}

// startTime parses seconds since 1970, up to the year 2106, so that nanoseconds of them
// plus a tuple's time fit 64 bits. Some clients send a fraction.
func startTime(value string) (int64, error) {
	seconds, err := strconv.ParseFloat(value, 64)
	if err != nil || !(seconds >= 0 && seconds < 1<<32) {
		return 0, fmt.Errorf("%w: invalid start-time %q: use seconds since 1970", ErrHeader, value)
	}
	return int64(seconds), nil
}

// WriteTo writes the header in the order of the reference client, with the final empty
// line.
func (h *Header) WriteTo(w io.Writer) (int64, error) {
	var text strings.Builder
	protocol := h.Protocol
	if protocol == 0 {
		protocol = 4
	}
	fmt.Fprintf(&text, "protocol: %d\ndomain: %s\nstart-time: %d\nsender-id: %s\napp-name: %s\n",
		protocol, line(h.Domain), h.Start, line(h.Sender), line(h.App))
	for _, key := range slices.Sorted(maps.Keys(h.Extra)) {
		fmt.Fprintf(&text, "%s: %s\n", line(key), line(h.Extra[key]))
	}
	for _, s := range h.Schemas {
		fmt.Fprintf(&text, "schema: %s\n", s)
	}
	fmt.Fprintf(&text, "content: %s\n\n", h.Content)
	n, err := io.WriteString(w, text.String())
	return int64(n), err
}

// line replaces line breaks by spaces.
func line(s string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if r == '\n' || r == '\r' {
			return ' '
		}
		return r
	}, s))
}
