package web

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"time"
)

const (
	headerTimeout = 10 * time.Second
	bodyTimeout   = 30 * time.Second
	idleTimeout   = 2 * time.Minute
	// writeTimeout limits one write, so that a client that does not read cannot hold a
	// query forever.
	writeTimeout = time.Minute
	headerBytes  = 64 << 10
	// Buffers of HTTP/2: a frame, and what has arrived on a connection and on each of its streams.
	frameBytes   = 16 << 10
	receiveBytes = 64 << 10
)

// tlsHandshake is the first byte of a TLS connection (RFC 8446, section 5.1).
const tlsHandshake = 0x16

// port is a net.Listener for both TLS and plain connections, which it tells apart by
// the first byte.
//
// The libraries for this (soheilhy/cmux, inetaf/tcpproxy) were not an improvement: they
// neither limit connections nor count those refused, retry without a pause when the
// process is out of file descriptors, and leave silent connections open on Close.
type port struct {
	net.Listener
	tls   *tls.Config
	all   *connections
	ready chan net.Conn
	// ctx is done when the port is closed.
	ctx    context.Context
	cancel context.CancelFunc
	fault  chan error
}

func newPort(l net.Listener, config *tls.Config, all *connections) *port {
	p := &port{Listener: l, tls: config, all: all, ready: make(chan net.Conn), fault: make(chan error, 1)}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	go p.run()
	return p
}

// run accepts connections. Each is inspected in its own goroutine, so that a silent one
// does not block others.
func (p *port) run() {
	for {
		conn, err := p.Listener.Accept()
		if err != nil {
			var temporary interface{ Temporary() bool }
			if errors.As(err, &temporary) && temporary.Temporary() { // such as too many open files
				select {
				case <-time.After(50 * time.Millisecond):
					continue
				case <-p.ctx.Done():
				}
			}
			p.fault <- err
			return
		}
		if admitted := p.all.admit(conn); admitted != nil {
			go p.inspect(admitted)
		}
	}
}

func (p *port) inspect(conn *connection) {
	conn.SetReadDeadline(time.Now().Add(headerTimeout))
	stop := context.AfterFunc(p.ctx, func() { conn.SetReadDeadline(time.Now()) })
	defer stop()
	peeked := &peekedConn{connection: conn, reader: bufio.NewReaderSize(conn, 1<<10)}
	first, err := peeked.reader.Peek(1)
	if err != nil || conn.SetReadDeadline(time.Time{}) != nil {
		conn.Close()
		return
	}
	var ready net.Conn = peeked
	if first[0] == tlsHandshake {
		ready = tls.Server(peeked, p.tls)
	}
	select {
	case p.ready <- ready:
	case <-p.ctx.Done():
		conn.Close()
	}
}

// Accept returns an inspected connection.
func (p *port) Accept() (net.Conn, error) {
	select {
	case conn := <-p.ready:
		return conn, nil
	case err := <-p.fault:
		return nil, err
	case <-p.ctx.Done():
		return nil, net.ErrClosed
	}
}

// Close closes the port and connections that are not accepted yet.
func (p *port) Close() error {
	p.cancel()
	return p.Listener.Close()
}

// peekedConn is a connection with peeked bytes.
type peekedConn struct {
	*connection
	reader *bufio.Reader
}

func (c *peekedConn) Read(b []byte) (int, error) { return c.reader.Read(b) }

func newHTTPServer(config *tls.Config, handler http.Handler) *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true) // gRPC on loopback
	return &http.Server{
		Handler: handler, TLSConfig: config, Protocols: protocols, ConnContext: withConnection,
		ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: headerBytes,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: 100, WriteByteTimeout: writeTimeout, MaxReadFrameSize: frameBytes,
			MaxReceiveBufferPerConnection: receiveBytes, MaxReceiveBufferPerStream: receiveBytes,
			SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second,
		},
	}
}

// remoteAddress of a request; the zero address if it has none.
func remoteAddress(r *http.Request) netip.Addr {
	remote, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return remote.Addr().Unmap()
}
