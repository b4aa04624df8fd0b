package outfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Formats of records.
const (
	CSV    = "csv"
	NDJSON = "ndjson"
)

const (
	// queueMax bounds the records that wait for their reader, in bytes.
	queueMax = 8 << 20
	// wakeBytes is how much is written before flushEvery is over, which bounds what a crash loses.
	wakeBytes  = 64 << 10
	flushEvery = 250 * time.Millisecond
	// drainMax is how long Close waits for a reader.
	drainMax = 2 * time.Second
)

// RecordsFile is where records go, and how.
type RecordsFile struct {
	Path Path
	// Format is CSV or NDJSON; empty: NDJSON if the name ends in .ndjson, else CSV.
	Format string
}

// Records writes records, one a line, while they come. It never waits for its reader: records for
// which there is no room are lost and counted. Its methods may be called by several goroutines.
type Records struct {
	path     Path
	at       place
	csv      bool
	columns  []string
	queueMax int

	mu sync.Mutex
	// queue are lines that are not being written.
	queue []byte
	// added are all records, written those that were passed to the file.
	added, written uint64
	closed         bool

	wake, closing, ended chan struct{}

	// What follows belongs to the writing goroutine until it has ended.
	file *os.File // nil: a FIFO that nothing reads
	// rest is what remains of the lines that are being written, which are in block; title is the
	// first line for a reader.
	rest, block, title []byte
	inLine             bool // the last byte written was not the end of a line
	gone               bool // no reader will come
	err                error
}

// Open opens a file and writes the names of the columns, which in NDJSON are the keys of each
// record. Without a path it returns nil, which may be closed.
func (o RecordsFile) Open(columns ...string) (*Records, error) {
	if o.Path == "" {
		if o.Format != "" {
			return nil, fmt.Errorf("create record file: a format, %s, needs a file", o.Format)
		}
		return nil, nil
	}
	r, err := o.open(columns, queueMax)
	if err != nil {
		return nil, fmt.Errorf("create record file: %w", err)
	}
	ticks := time.NewTicker(flushEvery)
	go func() {
		defer ticks.Stop()
		r.run(ticks.C)
	}()
	return r, nil
}

func (o RecordsFile) open(columns []string, queueMax int) (*Records, error) {
	r := &Records{
		path: o.Path, columns: columns, queueMax: queueMax, csv: o.Format == CSV || o.Format == "" && !strings.HasSuffix(string(o.Path), "."+NDJSON),
		wake: make(chan struct{}, 1), closing: make(chan struct{}), ended: make(chan struct{}),
	}
	var err error
	if r.at, err = o.Path.resolve(); err == nil && r.at.isFIFO() {
		return r, nil // opened when a program reads it
	}
	r.file, err = o.Path.Grow(0o666, r.header())
	return r, err
}

// header is the first line.
func (r *Records) header() []byte {
	if !r.csv {
		return nil
	}
	return []byte(strings.Join(r.columns, ",") + "\n")
}

// run writes what was added at every tick.
func (r *Records) run(ticks <-chan time.Time) {
	defer close(r.ended)
	for {
		select {
		case <-r.closing:
			for end := time.Now().Add(drainMax); !r.flush(time.Until(end)) && time.Now().Before(end); {
				time.Sleep(readerEvery)
			}
			if r.file != nil {
				r.fail(r.file.Close())
			}
			return
		case <-ticks:
		case <-r.wake:
		}
		r.flush(flushEvery)
	}
}

// flush writes what was added, unless the reader is too slow; it reports whether nothing is left.
func (r *Records) flush(wait time.Duration) (empty bool) {
	for {
		if len(r.rest) == 0 {
			r.mu.Lock()
			r.rest, r.block, r.queue = r.queue, r.queue, r.block[:0]
			r.mu.Unlock()
		}
		if r.gone || len(r.rest) == 0 && len(r.title) == 0 {
			r.rest = nil
			return true
		}
		if !r.connected() {
			return len(r.rest) == 0
		}
		_ = r.file.SetWriteDeadline(time.Now().Add(wait)) // regular files have none
		part := &r.title
		if len(r.title) == 0 {
			part = &r.rest
		}
		n, err := r.file.Write(*part)
		if part == &r.rest {
			r.mu.Lock()
			r.written += uint64(bytes.Count(r.rest[:n], []byte("\n")))
			r.mu.Unlock()
		}
		if n > 0 {
			r.inLine = (*part)[n-1] != '\n'
		}
		*part = (*part)[n:]
		switch {
		case errors.Is(err, unix.EPIPE) || errors.Is(err, unix.ECONNRESET):
			r.leave(err)
		case errors.Is(err, os.ErrDeadlineExceeded):
			return false
		case err != nil: // a full disk may have room later
			r.fail(err)
			return false
		}
	}
}

var errNoReader = errors.New("no program reads the FIFO")

// connected opens a FIFO that has a reader again.
func (r *Records) connected() bool {
	if r.file != nil {
		return true
	}
	file, err := r.at.openInPlace()
	if errors.Is(err, unix.ENXIO) {
		err = errNoReader
	}
	if err != nil {
		r.fail(err)
		return false
	}
	r.file, r.title, r.err = file, r.header(), nil
	return true
}

// leave ends a connection whose reader has gone. Another one may come to a FIFO, and must not
// begin within a line.
func (r *Records) leave(err error) {
	r.fail(errors.Join(err, r.file.Close()))
	if r.inLine && len(r.title) == 0 {
		_, r.rest, _ = bytes.Cut(r.rest, []byte("\n"))
	}
	r.file, r.inLine, r.gone = nil, false, !r.at.isFIFO()
}

func (r *Records) fail(err error) {
	if r.err == nil && err != nil {
		r.err = cause(err)
	}
}

// Count is how many records were written, and how many were lost because their reader was too
// slow or had gone.
type Count struct {
	Written uint64 `json:"written"`
	Lost    uint64 `json:"lost"`
}

// Close writes what is left, waiting for its reader for two seconds at most. Lost records are an
// error, of the first call.
func (r *Records) Close() (Count, error) {
	if r == nil || r.closed {
		return Count{}, nil
	}
	var failed error
	var late <-chan time.Time // of what has no deadline, such as a terminal, but is no file
	if !r.at.isWhole() {
		late = time.After(2 * drainMax)
	}
	r.closed = true
	close(r.closing)
	select {
	case <-r.ended:
		failed = r.err
	case <-late:
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	count := Count{Written: r.written, Lost: r.added - r.written}
	switch {
	case count.Lost == 0:
		return count, nil
	case failed == nil:
		failed = errors.New("the reader was too slow")
	}
	return count, fmt.Errorf("write records to %s: %d of %d records were lost: %w", r.path, count.Lost, r.added, failed)
}

// Row is a record that is being added: one call for each column, in their order, then End.
type Row struct {
	records *Records
	begin   int // in the queue
	column  int
}

// Row begins a record. Until End, no other can begin.
func (r *Records) Row() *Row {
	r.mu.Lock()
	return &Row{records: r, begin: len(r.queue)}
}

// next begins a value.
func (w *Row) next() *[]byte {
	r := w.records
	if w.column > 0 {
		r.queue = append(r.queue, ',')
	} else if !r.csv {
		r.queue = append(r.queue, '{')
	}
	if !r.csv {
		r.queue = append(append(append(r.queue, '"'), r.columns[w.column]...), `":`...)
	}
	w.column++
	return &r.queue
}

// Int adds a number.
func (w *Row) Int(v int64) *Row {
	b := w.next()
	*b = strconv.AppendInt(*b, v, 10)
	return w
}

// Uint adds a number.
func (w *Row) Uint(v uint64) *Row {
	b := w.next()
	*b = strconv.AppendUint(*b, v, 10)
	return w
}

// Bool adds true or false.
func (w *Row) Bool(v bool) *Row {
	b := w.next()
	*b = strconv.AppendBool(*b, v)
	return w
}

// Text adds a text.
func (w *Row) Text(v string) *Row {
	b := w.next()
	switch special := strings.ContainsAny(v, ",\"\r\n"); {
	case !w.records.csv:
		text, _ := json.Marshal(v) // a string has no error
		*b = append(*b, text...)
	case special:
		*b = append(append(append(*b, '"'), strings.ReplaceAll(v, `"`, `""`)...), '"')
	default:
		*b = append(*b, v...)
	}
	return w
}

// Null adds a value that was not measured: an empty field in CSV, null in NDJSON.
func (w *Row) Null() *Row {
	b := w.next()
	if !w.records.csv {
		*b = append(*b, "null"...)
	}
	return w
}

// IntIf adds a number, or null unless it is known.
func (w *Row) IntIf(known bool, v int64) *Row {
	if !known {
		return w.Null()
	}
	return w.Int(v)
}

// TextIf adds a text, or null if it is empty.
func (w *Row) TextIf(v string) *Row {
	if v == "" {
		return w.Null()
	}
	return w.Text(v)
}

// End adds the record.
func (w *Row) End() {
	r := w.records
	defer r.mu.Unlock()
	if w.column != len(r.columns) {
		panic(fmt.Sprintf("outfile: a record of %d values for %d columns", w.column, len(r.columns)))
	}
	if !r.csv {
		r.queue = append(r.queue, '}')
	}
	r.queue = append(r.queue, '\n')
	r.added++
	if len(r.queue) > r.queueMax {
		r.queue = r.queue[:w.begin]
	} else if len(r.queue) > wakeBytes {
		select {
		case r.wake <- struct{}{}:
		default:
		}
	}
}
