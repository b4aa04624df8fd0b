package main

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"time"

	"pillion.dev/internal/netns"
)

// sink is the receiving process of TCP: it reads what arrives.
type sink struct {
	listener net.Listener
	bytes    chan int64 // of each connection, once it ends
}

func openSink(t *testbed) (*sink, error) {
	s := &sink{bytes: make(chan int64, 16)}
	err := netns.Do(t.receiver, func() (err error) {
		s.listener, err = net.Listen("tcp", netip.AddrPortFrom(t.target(), port).String())
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("open sink: %w", err)
	}
	go func() {
		for {
			c, err := s.listener.Accept()
			if err != nil {
				return
			}
			go func() {
				n, _ := io.Copy(io.Discard, c)
				c.Close()
				s.bytes <- n
			}()
		}
	}()
	return s, nil
}

// await waits for the end of a connection and compares what it brought.
func (s *sink) await(bytes int64) error {
	n, err := s.next()
	if err == nil && n != bytes {
		err = fmt.Errorf("send stream: %d of %d bytes arrived", n, bytes)
	}
	return err
}

// ended waits for the end of a connection.
func (s *sink) ended() error {
	_, err := s.next()
	return err
}

func (s *sink) next() (bytes int64, err error) {
	select {
	case n := <-s.bytes:
		return n, nil
	case <-time.After(6 * patience):
		return 0, fmt.Errorf("send stream: it does not end in %v", 6*patience)
	}
}

func (s *sink) close() error { return s.listener.Close() }
