package web

import (
	"bytes"
	"crypto/tls"
	"net"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"pillion.dev/internal/test/hang"
)

// stalledStreams are streams of an HTTP/2 client that accepts headers, but no byte of a body.
type stalledStreams struct {
	t      testing.TB
	conn   net.Conn
	frames *http2.Framer
	next   uint32
}

func newStalledStreams(t testing.TB, s *site) *stalledStreams {
	t.Helper()
	conn, err := tls.Dial("tcp", s.addr, &tls.Config{RootCAs: s.roots, NextProtos: []string{"h2"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(hang.Limit))
	c := &stalledStreams{t: t, conn: conn, frames: http2.NewFramer(conn, conn), next: 1}
	if _, err := conn.Write([]byte(http2.ClientPreface)); err != nil {
		t.Fatal(err)
	}
	if err := c.frames.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}); err != nil {
		t.Fatal(err)
	}
	c.frames.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	return c
}

// get sends a request.
func (c *stalledStreams) get(path string) { c.send("GET", path, nil) }

// post sends one with a body that does not end.
func (c *stalledStreams) post(path string, body []byte) { c.send("POST", path, body) }

func (c *stalledStreams) send(method, path string, body []byte) {
	c.t.Helper()
	var block bytes.Buffer
	fields := hpack.NewEncoder(&block)
	for _, field := range [][2]string{{":method", method}, {":scheme", "https"}, {":authority", "x"}, {":path", path}, {"content-type", "application/json"}} {
		fields.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]})
	}
	err := c.frames.WriteHeaders(http2.HeadersFrameParam{StreamID: c.next, BlockFragment: block.Bytes(), EndStream: body == nil, EndHeaders: true})
	if err == nil && body != nil {
		err = c.frames.WriteData(c.next, false, body)
	}
	if err != nil {
		c.t.Fatal(err)
	}
	c.next += 2
}

// answer reads the header of the next answer; ended: it has no body.
func (c *stalledStreams) answer() (status string, ended bool) {
	c.t.Helper()
	for {
		frame, err := c.frames.ReadFrame()
		if err != nil {
			c.t.Fatal(err)
		}
		if header, ok := frame.(*http2.MetaHeadersFrame); ok {
			return header.PseudoValue("status"), header.StreamEnded()
		}
	}
}
