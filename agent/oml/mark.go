package oml

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"pillion.dev/measure"
	"pillion.dev/omsp/relay"
)

// marks say how far each session has come in each stream, over the end of this
// process too. A file of notes of fixed length, the newest last:
//
//	 0  session, u64
//	 8  stream, 16 bytes: what follows relay.Prefix
//	24  number of the session's last tuple, i64
//	32  epoch, u64, and 40 sequence, u64, of the batch that held it
//	48  CRC-32C of these
//
// A note is written before the batch can be sent. A process that is killed between
// the batch and its note leaves the batch in the spool, where the next one finds it.
type marks struct {
	path string
	log  *slog.Logger

	mu      sync.Mutex
	file    *os.File
	notes   int // in the file
	failing bool
	seqs    map[markKey]mark
	order   []markKey          // as they came first
	covered map[lineKey]uint64 // highest sequence noted
}

type markKey struct {
	session uint64
	stream  [16]byte
}

type mark struct {
	seq             int64
	epoch, sequence uint64
}

type lineKey struct {
	stream [16]byte
	epoch  uint64
}

const (
	noteBytes = 52
	marksMax  = 1 << 16 // of which the oldest are forgotten
	notesMax  = 4 * marksMax
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// streamID is the part of a stream's name that tells it from others.
func streamID(name string) (id [16]byte, ok bool) {
	text, ok := strings.CutPrefix(name, relay.Prefix)
	if !ok || len(text) != 2*len(id) {
		return id, false
	}
	_, err := hex.Decode(id[:], []byte(text))
	return id, err == nil
}

// openMarks reads the file in a folder; what is damaged in it is left out.
func openMarks(folder string, log *slog.Logger) (*marks, error) {
	m := &marks{path: filepath.Join(folder, "oml.marks"), log: log, seqs: map[markKey]mark{}, covered: map[lineKey]uint64{}}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, fmt.Errorf("open marks of sessions: %w", err)
	}
	text, err := os.ReadFile(m.path)
	if err != nil && !os.IsNotExist(err) {
		return nil, fmt.Errorf("open marks of sessions: %w", err)
	}
	m.parse(text)
	if err := m.compact(); err != nil {
		return nil, fmt.Errorf("open marks of sessions: %w", err)
	}
	return m, nil
}

func (m *marks) parse(text []byte) {
	for at := 0; at+noteBytes <= len(text); {
		note := text[at : at+noteBytes]
		if crc32.Checksum(note[:noteBytes-4], castagnoli) != binary.LittleEndian.Uint32(note[noteBytes-4:]) {
			at++ // half a note may lie before the next whole one
			continue
		}
		k := markKey{session: binary.LittleEndian.Uint64(note), stream: [16]byte(note[8:24])}
		m.set(k, mark{
			seq: int64(binary.LittleEndian.Uint64(note[24:])), epoch: binary.LittleEndian.Uint64(note[32:]),
			sequence: binary.LittleEndian.Uint64(note[40:]),
		})
		at += noteBytes
	}
}

// set takes a mark over; a session never goes back.
func (m *marks) set(k markKey, new mark) {
	old, known := m.seqs[k]
	if !known {
		m.order = append(m.order, k)
	}
	new.seq = max(new.seq, old.seq)
	m.seqs[k] = new
	line := lineKey{k.stream, new.epoch}
	m.covered[line] = max(m.covered[line], new.sequence+1)
	if len(m.order) > marksMax {
		delete(m.seqs, m.order[0])
		m.order = m.order[1:]
	}
}

func appendNote(to []byte, k markKey, one mark) []byte {
	begin := len(to)
	to = binary.LittleEndian.AppendUint64(to, k.session)
	to = append(to, k.stream[:]...)
	to = binary.LittleEndian.AppendUint64(to, uint64(one.seq))
	to = binary.LittleEndian.AppendUint64(to, one.epoch)
	to = binary.LittleEndian.AppendUint64(to, one.sequence)
	return binary.LittleEndian.AppendUint32(to, crc32.Checksum(to[begin:], castagnoli))
}

// compact writes the file anew, with one note for each session and stream.
func (m *marks) compact() error {
	var text bytes.Buffer
	covered := map[lineKey]uint64{}
	for _, k := range m.order {
		one := m.seqs[k]
		text.Write(appendNote(nil, k, one))
		line := lineKey{k.stream, one.epoch}
		covered[line] = max(covered[line], one.sequence+1)
	}
	if err := os.WriteFile(m.path+".new", text.Bytes(), 0o600); err != nil {
		return err
	}
	if err := os.Rename(m.path+".new", m.path); err != nil {
		return err
	}
	file, err := os.OpenFile(m.path, os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	if m.file != nil {
		m.file.Close()
	}
	m.file, m.notes, m.covered = file, len(m.order), covered
	return nil
}

// note writes down that a batch with a session's tuples up to seq is in the spool.
func (m *marks) note(session uint64, key measure.Key, seq int64) {
	id, ok := streamID(key.Stream)
	if !ok {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	k, one := markKey{session, id}, mark{seq, key.Epoch, key.Sequence}
	m.set(k, one)
	var err error
	if m.notes >= notesMax {
		err = m.compact()
	} else {
		_, err = m.file.Write(appendNote(nil, k, one))
		m.notes++
	}
	if err != nil && !m.failing {
		m.log.Warn("note what a session has stored: after a restart it may send tuples twice", "error", err)
	}
	m.failing = err != nil
}

// last is the number of a session's last tuple in the spool, or beyond.
func (m *marks) last(session uint64, stream string) int64 {
	id, _ := streamID(stream)
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.seqs[markKey{session, id}].seq
}

// found looks at a batch of the spool that may have no note.
func (m *marks) found(e measure.Envelope) {
	id, ok := streamID(e.Stream)
	m.mu.Lock()
	noted := m.covered[lineKey{id, e.Epoch}] > e.Sequence
	m.mu.Unlock()
	if !ok || noted {
		return
	}
	_, record, err := e.Decode()
	if err != nil {
		return
	}
	defer record.Release()
	seqs := map[uint64]int64{}
	lastOf(record, seqs)
	for session, seq := range seqs {
		m.note(session, e.Key, seq)
	}
}

// lastOf is the highest number of each session in a batch.
func lastOf(record arrow.RecordBatch, seqs map[uint64]int64) {
	if record.NumCols() < 4 {
		return
	}
	sessions, isSession := record.Column(2).(*array.Uint64)
	numbers, isNumber := record.Column(3).(*array.Int64)
	if !isSession || !isNumber {
		return
	}
	for i := range int(record.NumRows()) {
		session := sessions.Value(i)
		seqs[session] = max(seqs[session], numbers.Value(i))
	}
}

func (m *marks) close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.file.Close()
}
