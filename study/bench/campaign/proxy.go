package main

import (
	"encoding/binary"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"pillion.dev/internal/netns"
)

// proxy is a TCP proxy between agents and the server's port that issues certificates. It drops a share of
// the answers: the server has carried out the request, and the agent does not know.
type proxy struct {
	namespace, to string
	listener      net.Listener
	share         float64
	mu            sync.Mutex
	draws         *rand.Rand
	lost          atomic.Int64
}

func startProxy(namespace, at, to string, share float64, seed uint64) (*proxy, error) {
	p := &proxy{namespace: namespace, to: to, share: share, draws: rand.New(rand.NewPCG(seed, 2))}
	err := netns.Do(namespace, func() (err error) {
		p.listener, err = net.Listen("tcp", at)
		return err
	})
	if err != nil {
		return nil, err
	}
	go func() {
		for {
			conn, err := p.listener.Accept()
			if err != nil {
				return
			}
			go p.relay(conn.(*net.TCPConn))
		}
	}()
	return p, nil
}

func (p *proxy) relay(agent *net.TCPConn) {
	defer agent.Close()
	var dialed net.Conn
	err := netns.Do(p.namespace, func() (err error) {
		dialed, err = net.Dial("tcp", p.to)
		return err
	})
	if err != nil {
		return
	}
	defer dialed.Close()
	p.mu.Lock()
	loses := p.draws.Float64() < p.share
	p.mu.Unlock()
	asked := make(chan struct{})
	go func() {
		_ = countRecords(dialed, agent, asked)
		_ = dialed.(*net.TCPConn).CloseWrite() // fails if the connection is already closed
	}()
	if !loses {
		_, _ = io.Copy(agent, dialed) // until either side ends
		return
	}
	buffer := make([]byte, 32<<10)
	for {
		n, err := dialed.Read(buffer)
		select {
		case <-asked:
			p.lost.Add(1)
			_ = dialed.SetReadDeadline(time.Now().Add(answerTime))
			_, _ = io.Copy(io.Discard, dialed)
			return
		default:
		}
		if _, failed := agent.Write(buffer[:n]); err != nil || failed != nil {
			return
		}
	}
}

// answerTime is how long the server has to carry out the request before the connection is closed.
const answerTime = time.Second

// applicationData is the type of a TLS record with encrypted content (RFC 8446, section 5.1).
const applicationData = 23

// countRecords copies TLS records, and closes asked at the second record of type applicationData: the
// first one ends the handshake (TLS 1.3), the second one is the request.
func countRecords(to io.Writer, from io.Reader, asked chan struct{}) error {
	contents := 0
	for {
		var head [5]byte
		if _, err := io.ReadFull(from, head[:]); err != nil {
			return err
		}
		record := make([]byte, 5+int(binary.BigEndian.Uint16(head[3:])))
		copy(record, head[:])
		if _, err := io.ReadFull(from, record[5:]); err != nil {
			return err
		}
		if head[0] == applicationData {
			if contents++; contents == 2 {
				close(asked)
			}
		}
		if _, err := to.Write(record); err != nil {
			return err
		}
	}
}
