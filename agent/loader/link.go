package loader

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"pillion.dev/measure"
)

// kind of a message on the link between the two parts of an agent.
type kind byte

// Messages of the unprivileged part. A message whose number is not 0 gets kindReply or kindFailure with that number.
const (
	kindRequest kind = iota + 1 // session.Request
	kindPulse                   // session.Pulse
	kindStatus
	kindClose // end all tasks; answered after the last rows have been sent
	kindReady // the server has registered the agent
	kindStart // the unprivileged part accepts rows: start the Loader
	kindSelf  // runner.Self
	kindToken // read the token of the Kubernetes API
)

// Messages of the privileged part.
const (
	kindSetup kind = iota + 64 // the first message
	kindRow
	kindReply
	kindFailure // the text of an error, instead of a reply
	kindStop    // close the Loader and end
)

// A message is the length of its content, bytes (4), its kind (1) and its number (8), then the content. Integers
// are little-endian.
const (
	headerLength = 4 + 1 + 8
	// messageMax is the maximum content of a message of the privileged part, bytes; requestMax is the maximum
	// for the unprivileged part.
	messageMax = 64 << 20
	// pendingMax bounds the messages that wait to be written, bytes.
	pendingMax = 16 << 20
	// stallMax is how long a write may block because the other end does not read.
	stallMax = 30 * time.Second
)

var errClosed = errors.New("link closed")

// link is one end of the connection between the two parts. Rows are appended to a buffer that a goroutine
// writes, so that a system call writes all rows since the previous one.
type link struct {
	conn net.Conn
	in   *bufio.Reader

	mu      sync.Mutex
	changed sync.Cond
	pending []byte
	err     error // why nothing can be sent any more; nil while the link works
	written chan struct{}
}

func newLink(conn net.Conn) *link {
	l := &link{conn: conn, in: bufio.NewReaderSize(conn, 64<<10), written: make(chan struct{})}
	l.changed.L = &l.mu
	go l.write()
	return l
}

// begin waits until the buffer has room and appends the header of a message. It holds the mutex until finish.
func (l *link) begin(k kind, number uint64) (start int, err error) {
	l.mu.Lock()
	for l.err == nil && len(l.pending) > pendingMax {
		l.changed.Wait()
	}
	if l.err != nil {
		l.mu.Unlock()
		return 0, l.err
	}
	start = len(l.pending)
	l.pending = append(l.pending, 0, 0, 0, 0, byte(k))
	l.pending = binary.LittleEndian.AppendUint64(l.pending, number)
	return start, nil
}

func (l *link) finish(start int) {
	binary.LittleEndian.PutUint32(l.pending[start:], uint32(len(l.pending)-start-headerLength))
	l.mu.Unlock()
	l.changed.Broadcast()
}

func (l *link) send(k kind, number uint64, content []byte) error {
	start, err := l.begin(k, number)
	if err != nil {
		return err
	}
	l.pending = append(l.pending, content...)
	l.finish(start)
	return nil
}

func (l *link) sendRow(point string, sample measure.Sample) error {
	start, err := l.begin(kindRow, 0)
	if err != nil {
		return err
	}
	l.pending = appendRow(l.pending, point, sample)
	l.finish(start)
	return nil
}

func (l *link) write() {
	defer close(l.written)
	var out []byte
	for {
		l.mu.Lock()
		for l.err == nil && len(l.pending) == 0 {
			l.changed.Wait()
		}
		if len(l.pending) == 0 {
			l.mu.Unlock()
			return
		}
		out, l.pending = l.pending, out[:0]
		l.mu.Unlock()
		l.changed.Broadcast()
		err := l.conn.SetWriteDeadline(time.Now().Add(stallMax))
		if err == nil {
			_, err = l.conn.Write(out)
		}
		if err != nil {
			l.fail(fmt.Errorf("%w: %w", errClosed, err))
			return
		}
	}
}

// fail ends sending. Pending messages are still written if possible.
func (l *link) fail(err error) {
	l.mu.Lock()
	if l.err == nil {
		l.err = err
	}
	l.mu.Unlock()
	l.changed.Broadcast()
}

// receive reads a message with a content of at most most bytes. The content is in memory if it fits there,
// and in a new slice otherwise.
func (l *link) receive(most int, memory []byte) (k kind, number uint64, content []byte, err error) {
	var header [headerLength]byte
	if _, err := io.ReadFull(l.in, header[:]); err != nil {
		return 0, 0, nil, err
	}
	length := binary.LittleEndian.Uint32(header[:])
	if uint64(length) > uint64(most) {
		return 0, 0, nil, fmt.Errorf("message of %d bytes, limit %d", length, most)
	}
	if int(length) > cap(memory) {
		memory = make([]byte, length)
	}
	content = memory[:length]
	_, err = io.ReadFull(l.in, content)
	return kind(header[4]), binary.LittleEndian.Uint64(header[5:]), content, err
}

// close writes the pending messages and closes the connection.
func (l *link) close() error {
	l.fail(errClosed)
	<-l.written
	return l.conn.Close()
}
