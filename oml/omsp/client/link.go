package client

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"pillion.dev/oml/omsp"
)

const (
	dialTimeout  = 5 * time.Second
	writeTimeout = 30 * time.Second
	chunkBytes   = 64 << 10 // of one write
	pauseMax     = 5 * time.Second
)

// run connects, and reconnects with exponential backoff.
func (c *Client) run() {
	pause := c.o.Pause
	for c.ctx.Err() == nil {
		begun := time.Now()
		if err := c.connect(); err != nil && c.ctx.Err() == nil {
			c.o.Log.Warn("send to OML collector", "address", c.o.Address, "error", err)
		}
		c.mu.Lock()
		if pause *= 2; c.moved || time.Since(begun) > pauseMax {
			pause = c.o.Pause
		}
		c.moved = false
		c.mu.Unlock()
		pause = min(pause, pauseMax)
		select {
		case <-time.After(pause):
		case <-c.ctx.Done():
		}
	}
}

// connect serves one connection until it ends.
func (c *Client) connect() error {
	ctx, cancel := context.WithTimeout(c.ctx, dialTimeout)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", c.o.Address)
	if err != nil {
		return err
	}
	if c.o.TLS != nil {
		shaken := tls.Client(conn, c.o.TLS)
		if err := shaken.HandshakeContext(ctx); err != nil {
			return errors.Join(err, conn.Close())
		}
		conn = shaken
	}
	l := &link{client: c, conn: conn, greeted: make(chan struct{}), ended: make(chan struct{})}
	defer func() {
		conn.Close()
		<-l.ended
	}()
	stop := context.AfterFunc(c.ctx, func() { conn.Close() })
	defer stop()
	go l.listen()
	if err := l.greet(); err != nil {
		return err
	}
	return l.send()
}

// link is one connection.
type link struct {
	client  *Client
	conn    net.Conn
	greeted chan struct{} // closed by go
	ended   chan struct{} // closed when reading ends
	answers bool          // guarded by the client's lock
	going   bool          // of listen alone
}

// listen reads the collector's lines.
func (l *link) listen() {
	defer close(l.ended)
	lines := bufio.NewScanner(io.LimitReader(l.conn, 1<<40))
	for lines.Scan() {
		l.handle(lines.Text())
	}
}

// handle handles one line; unknown ones are ignored.
func (l *link) handle(line string) {
	words := strings.Fields(line)
	switch {
	case line == "pillion 1":
		l.client.mu.Lock()
		l.answers = true
		l.client.thin, l.client.rate, l.client.every = 1, 0, 0 // until this collector requests fewer
		l.client.wake()
		l.client.mu.Unlock()
	case line == "go" && !l.going:
		l.going = true
		close(l.greeted)
	case len(words) == 2 && words[0] == "thin" && !l.client.o.Complete:
		if n, err := strconv.ParseUint(words[1], 10, 31); err == nil && n > 0 {
			l.client.mu.Lock()
			l.client.thin = n
			l.client.mu.Unlock()
		}
	case len(words) == 2 && (words[0] == "slow" || words[0] == "aggregate" && !l.client.o.Complete):
		if n, err := strconv.ParseInt(words[1], 10, 40); err == nil && n >= 0 {
			l.client.reduce(words[0], n)
		}
	case len(words) == 3 && words[0] == "stored":
		index, err := strconv.ParseUint(words[1], 10, 31)
		seq, failed := strconv.ParseInt(words[2], 10, 64)
		if err == nil && failed == nil {
			l.client.acknowledge(int(index), seq)
		}
	}
}

// acknowledge releases tuples that are on the collector's disk.
func (c *Client) acknowledge(index int, seq int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if index > len(c.points) {
		return // not a stream of ours
	}
	c.stored[index] = max(seq, c.stored[index])
	c.moved = true
	c.releaseStored()
}

// releaseStored removes the oldest tuples as far as they are stored. The caller holds the lock.
func (c *Client) releaseStored() {
	n := 0
	for n < len(c.queue) && c.queue[n].seq <= c.stored[c.queue[n].index] {
		n++
	}
	c.release(n)
}

// release removes the oldest tuples. The caller holds the lock.
func (c *Client) release(n int) {
	for i := range n {
		c.bytes -= len(c.queue[i].text)
		c.queue[i].text = nil
	}
	c.queue = c.queue[n:]
	c.sent = max(0, c.sent-n)
	c.wake()
}

// greet sends the header and waits until the collector has sent what it has stored, or
// for the timeout.
func (l *link) greet() error {
	c := l.client
	c.mu.Lock()
	h := omsp.Header{
		Domain: c.o.Domain, Start: c.start.Unix(), Sender: c.o.Sender, App: c.o.App,
		Extra: map[string]string{"pillion-session": c.session, "pillion-feedback": "thin slow aggregate"}, Schemas: []omsp.Schema{omsp.Metadata},
	}
	if c.o.Complete {
		h.Extra["pillion-feedback"] = "slow"
	}
	if c.o.Token != "" {
		h.Extra["pillion-token"] = c.o.Token
	}
	for _, p := range c.points {
		h.Schemas = append(h.Schemas, p.schema)
	}
	c.begun, c.sent = true, 0
	c.mu.Unlock()
	l.conn.SetWriteDeadline(time.Now().Add(writeTimeout))
	if _, err := h.WriteTo(l.conn); err != nil {
		return err
	}
	late := time.NewTimer(c.o.Greeting)
	defer late.Stop()
	select {
	case <-l.greeted:
	case <-late.C:
	case <-l.ended:
		return errors.New("connection closed by the collector; is the token correct?")
	}
	return nil
}

// send writes queued tuples as they are added.
func (l *link) send() error {
	c := l.client
	var piece []byte
	for {
		c.mu.Lock()
		for c.sent == len(c.queue) {
			changed := c.changed
			c.mu.Unlock()
			select {
			case <-changed:
			case <-l.ended:
				return errors.New("connection closed by the collector")
			case <-c.ctx.Done():
				return nil
			}
			c.mu.Lock()
		}
		piece = piece[:0]
		for ; c.sent < len(c.queue) && len(piece) < c.chunk(); c.sent++ {
			if e := &c.queue[c.sent]; e.seq > c.stored[e.index] {
				piece = append(piece, e.text...)
			}
		}
		c.mu.Unlock()
		l.conn.SetWriteDeadline(time.Now().Add(writeTimeout))
		if _, err := l.conn.Write(piece); err != nil {
			return err
		}
		l.pause(len(piece))
		c.mu.Lock()
		if !l.answers {
			c.release(c.sent)
		}
		c.mu.Unlock()
	}
}
