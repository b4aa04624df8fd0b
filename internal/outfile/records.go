package outfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"pillion.dev/internal/csvfile"
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

var errNoReader = errors.New("no program reads the FIFO")

// RecordsFile is where records go, and how.
type RecordsFile struct {
	Path Path
	// Format is CSV or NDJSON; empty: NDJSON if the name ends in .ndjson, else CSV.
	Format string
}

// Records writes records, one a line, while they come. It never waits for its reader: records for
// which there is no room are lost and counted. Add may be called by several goroutines.
type Records struct {
	path     Path
	at       place
	csv      bool
	columns  []string
	queueMax int

	mu sync.Mutex
	// queue are lines that are not being written.
	queue []byte
	// added are all records, written those that were passed to the file: -1 before the title.
	added, written int64
	closed         bool

	wake, closing, ended chan struct{}

	// What follows belongs to the writing goroutine until it has ended.
	file *os.File // nil: a FIFO that nothing has read yet
	// rest is what remains of the lines that are being written, which are in block.
	rest, block []byte
	gone        bool // the reader
	err         error
}

// Open opens a file and writes the names of the columns, which in NDJSON are the keys of each
// record. Without a path it returns nil, which may be closed.
func (o RecordsFile) Open(columns ...string) (*Records, error) {
	if o.Path == "" && o.Format == "" {
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

func (o RecordsFile) open(columns []string, queueMax int) (r *Records, err error) {
	r = &Records{
		path: o.Path, columns: columns, queueMax: queueMax, csv: o.Format == CSV || o.Format == "" && !strings.HasSuffix(string(o.Path), "."+NDJSON),
		wake: make(chan struct{}, 1), closing: make(chan struct{}), ended: make(chan struct{}),
	}
	var title []byte
	if r.csv {
		title = []byte(strings.Join(columns, ",") + "\n")
	}
	if r.at, err = o.Path.resolve(); err == nil && r.at.isFIFO() { // opened when a program reads it
		r.queue, r.written = title, -int64(bytes.Count(title, []byte("\n")))
		return r, nil
	}
	r.file, err = o.Path.Grow(0o666, title)
	return r, err
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

// flush writes what was added, unless the reader is too slow; it reports whether nothing is left
// that can be written.
func (r *Records) flush(wait time.Duration) (done bool) {
	for !r.gone {
		if len(r.rest) == 0 {
			r.mu.Lock()
			r.rest, r.block, r.queue = r.queue, r.queue, r.block[:0]
			r.mu.Unlock()
			if len(r.rest) == 0 {
				return true
			}
		}
		if r.file == nil {
			file, err := r.at.openInPlace()
			if err != nil {
				r.err = errNoReader
				return false
			}
			r.file, r.err = file, nil
		}
		_ = r.file.SetWriteDeadline(time.Now().Add(wait)) // regular files have none
		n, err := r.file.Write(r.rest)
		r.mu.Lock()
		r.written += int64(bytes.Count(r.rest[:n], []byte("\n")))
		r.mu.Unlock()
		r.rest = r.rest[n:]
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return false
		}
		if err != nil { // a full disk may have room later
			r.fail(err)
			r.gone = errors.Is(err, unix.EPIPE) || errors.Is(err, unix.ECONNRESET)
			return r.gone
		}
	}
	return true
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
	var late <-chan time.Time // of what has no deadline, such as a terminal, but is no file
	if !r.at.isWhole() {
		late = time.After(2 * drainMax)
	}
	r.closed = true
	close(r.closing)
	why := errors.New("the reader was too slow")
	select {
	case <-r.ended:
		if r.err != nil {
			why = r.err
		}
	case <-late:
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	count := Count{Written: uint64(max(0, r.written))}
	if count.Lost = uint64(r.added) - count.Written; count.Lost == 0 {
		return count, nil
	}
	return count, fmt.Errorf("write records to %s: %d of %d records were lost: %w", r.path, count.Lost, r.added, why)
}

// If is a value if it was measured, else nil.
func If[T any](measured bool, value T) any {
	if !measured {
		return nil
	}
	return value
}

// Add adds a record: a number, text or truth value for each column. What was not measured is nil:
// an empty field in CSV, null in NDJSON.
func (r *Records) Add(values ...any) {
	if len(values) != len(r.columns) {
		panic(fmt.Sprintf("outfile: a record of %d values for %d columns", len(values), len(r.columns)))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	begin := len(r.queue)
	for i, value := range values {
		if r.csv {
			r.queue = appendField(r.queue, i, value)
		} else {
			r.queue = appendMember(r.queue, i, r.columns[i], value)
		}
	}
	if !r.csv {
		r.queue = append(r.queue, '}')
	}
	r.queue = append(r.queue, '\n')
	r.added++
	if len(r.queue) > r.queueMax {
		r.queue = r.queue[:begin]
	} else if len(r.queue) > wakeBytes {
		select {
		case r.wake <- struct{}{}:
		default:
		}
	}
}

func appendField(line []byte, i int, value any) []byte {
	if i > 0 {
		line = append(line, ',')
	}
	switch value := value.(type) {
	case nil:
		return line
	case string:
		return csvfile.AppendCell(line, []byte(value), true)
	}
	return fmt.Append(line, value)
}

func appendMember(line []byte, i int, name string, value any) []byte {
	begin := byte(',')
	if i == 0 {
		begin = '{'
	}
	line = append(append(append(line, begin, '"'), name...), `":`...)
	text, _ := json.Marshal(value) // a number, text or truth value has no error
	return append(line, text...)
}
