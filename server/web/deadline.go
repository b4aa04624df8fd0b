package web

import (
	"net/http"
	"sync/atomic"
	"time"
)

// pieceBytes are written with one deadline.
const pieceBytes = 32 << 10

// deadlineWriter limits each write of a response, not their sum: a tail has no end. In
// HTTP/2 one stream can stall while its connection does not.
type deadlineWriter struct {
	http.ResponseWriter
	control *http.ResponseController
	aborted atomic.Bool
	sent    atomic.Int64 // bytes
	waited  atomic.Int64 // nanoseconds in writes that have ended
	since   atomic.Int64 // when the write in progress began, in Unix nanoseconds; 0: there is none
}

func newDeadlineWriter(w http.ResponseWriter) *deadlineWriter {
	return &deadlineWriter{ResponseWriter: w, control: http.NewResponseController(w)}
}

// Write writes in pieces, each with a deadline.
func (w *deadlineWriter) Write(b []byte) (n int, err error) {
	for {
		w.begin()
		var piece int
		piece, err = w.ResponseWriter.Write(b[n:min(len(b), n+pieceBytes)])
		w.end()
		n += piece
		w.sent.Add(int64(piece))
		if err != nil || n == len(b) {
			return n, err
		}
	}
}

// begin sets the deadline of a write.
func (w *deadlineWriter) begin() {
	w.since.Store(time.Now().UnixNano())
	if w.control.SetWriteDeadline(time.Now().Add(writeTimeout)); w.aborted.Load() {
		w.abort()
	}
}

// end ends it, and adds the time that it took.
func (w *deadlineWriter) end() {
	w.waited.Add(time.Now().UnixNano() - w.since.Swap(0))
	w.control.SetWriteDeadline(time.Time{})
}

// progress returns how many bytes have been sent, and how long that took until now.
func (w *deadlineWriter) progress(now time.Time) (sent int64, waited time.Duration) {
	sent, waited = w.sent.Load(), time.Duration(w.waited.Load())
	if since := w.since.Load(); since != 0 {
		waited += now.Sub(time.Unix(0, since))
	}
	return sent, waited
}

// abort ends the write in progress and all later ones. The handler must not have returned.
func (w *deadlineWriter) abort() {
	w.aborted.Store(true)
	w.control.SetWriteDeadline(time.Unix(1, 0))
}

// Flush implements http.Flusher.
func (w *deadlineWriter) Flush() { w.FlushError() }

// FlushError flushes buffered data.
func (w *deadlineWriter) FlushError() error {
	w.begin()
	defer w.end()
	return w.control.Flush()
}

// Unwrap is for http.ResponseController.
func (w *deadlineWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
