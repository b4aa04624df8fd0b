package agent

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"pillion.dev/internal/store"
	"pillion.dev/measure"
	"pillion.dev/oml/omsp/relay"
)

// marks persist the progress of each session in each stream, in a file of fixed-length
// entries, the newest last:
//
//	 0  session, u64
//	 8  stream, 16 bytes: what follows relay.Prefix
//	24  number of the session's last tuple, i64
//	32  epoch, u64, and 40 sequence, u64, of the batch that held it
//	48  CRC-32C of these
//
// An entry is written before the batch can be sent. If the process is killed before that, or the disk refuses the
// entry, the next process finds the batch in the spool, which deletes no batch without an entry. Entries of one
// stream are written in the order of its batches: one entry shows that the progress no longer depends on earlier
// batches in the spool.
type marks struct {
	path string
	log  *slog.Logger

	mu      sync.Mutex
	file    *os.File
	entries int // in the file
	// pending are marks that the disk refused; nextCompact is when the file may be
	// rewritten again although that failed before.
	pending     map[markKey]mark
	nextCompact time.Time
	seqs        map[markKey]mark
	order       []markKey          // by first appearance
	covered     map[lineKey]uint64 // one above the highest sequence recorded
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
	entryBytes = 52
	marksMax   = 1 << 16 // beyond that the oldest are forgotten
	entriesMax = 4 * marksMax
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// streamID is the unique part of a stream's name.
func streamID(name string) (id [16]byte, ok bool) {
	text, ok := strings.CutPrefix(name, relay.Prefix)
	if !ok || len(text) != 2*len(id) {
		return id, false
	}
	_, err := hex.Decode(id[:], []byte(text))
	return id, err == nil
}

// openMarks reads the file in a folder and skips damaged entries.
func openMarks(folder string, log *slog.Logger) (*marks, error) {
	m := &marks{path: filepath.Join(folder, "oml.marks"), log: log, seqs: map[markKey]mark{}, pending: map[markKey]mark{}, covered: map[lineKey]uint64{}}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, fmt.Errorf("open progress of OML sessions: %w", err)
	}
	text, err := os.ReadFile(m.path)
	if err != nil && !os.IsNotExist(err) {
		log.Warn("the progress of OML sessions is lost and set aside: applications may send rows again that were stored", "error", err)
		_ = os.Rename(m.path, m.path+".damaged") // or it cannot be opened below
	}
	m.parse(text)
	if err := m.compact(); err == nil {
		return m, nil
	}
	// The disk may be full: the file can wait.
	m.entries = len(text) / entryBytes
	if m.file, err = os.OpenFile(m.path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600); err != nil {
		return nil, fmt.Errorf("open progress of OML sessions: %w", err)
	}
	return m, nil
}

func (m *marks) parse(text []byte) {
	for at := 0; at+entryBytes <= len(text); {
		entry := text[at : at+entryBytes]
		if crc32.Checksum(entry[:entryBytes-4], castagnoli) != binary.LittleEndian.Uint32(entry[entryBytes-4:]) {
			at++ // a partial entry may precede the next intact one
			continue
		}
		k := markKey{session: binary.LittleEndian.Uint64(entry), stream: [16]byte(entry[8:24])}
		m.set(k, mark{
			seq: int64(binary.LittleEndian.Uint64(entry[24:])), epoch: binary.LittleEndian.Uint64(entry[32:]),
			sequence: binary.LittleEndian.Uint64(entry[40:]),
		})
		at += entryBytes
	}
}

// set applies a mark; a session never goes backwards.
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

func appendEntry(to []byte, k markKey, one mark) []byte {
	begin := len(to)
	to = binary.LittleEndian.AppendUint64(to, k.session)
	to = append(to, k.stream[:]...)
	to = binary.LittleEndian.AppendUint64(to, uint64(one.seq))
	to = binary.LittleEndian.AppendUint64(to, one.epoch)
	to = binary.LittleEndian.AppendUint64(to, one.sequence)
	return binary.LittleEndian.AppendUint32(to, crc32.Checksum(to[begin:], castagnoli))
}

// compact rewrites the file with one entry per session and stream.
func (m *marks) compact() error {
	var text bytes.Buffer
	covered := map[lineKey]uint64{}
	for _, k := range m.order {
		one := m.seqs[k]
		text.Write(appendEntry(nil, k, one))
		line := lineKey{k.stream, one.epoch}
		covered[line] = max(covered[line], one.sequence+1)
	}
	if err := store.Replace(m.path, text.Bytes(), 0o600); err != nil {
		return err
	}
	file, err := os.OpenFile(m.path, os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	if m.file != nil {
		m.file.Close()
	}
	m.file, m.entries, m.covered = file, len(m.order), covered
	return nil
}

// record records that a batch with a session's tuples up to seq is in the spool.
func (m *marks) record(session uint64, key measure.Key, seq int64) {
	id, ok := streamID(key.Stream)
	if !ok {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	k, one := markKey{session, id}, mark{seq, key.Epoch, key.Sequence}
	m.set(k, one)
	begun := len(m.pending) == 0
	m.pending[k] = one
	if err := m.flush(); err != nil && begun {
		m.log.Warn("record progress of an OML session: batches stay in the spool until this succeeds", "error", err)
	}
}

// recorded returns nil if every mark is on the disk.
func (m *marks) recorded() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.flush()
}

// compactRetry is how long a file is not rewritten after that failed.
const compactRetry = time.Second

// flush writes pending marks, in the order of their batches.
func (m *marks) flush() (err error) {
	if len(m.pending) == 0 {
		return nil
	}
	if m.entries < entriesMax {
		if err = m.appendPending(); err == nil {
			return nil
		}
	}
	// The file is at its limit, or damaged. If that fails, too, it grows beyond the limit.
	if now := time.Now(); !now.Before(m.nextCompact) {
		if err = m.compact(); err == nil {
			clear(m.pending)
			return nil
		}
		m.nextCompact = now.Add(compactRetry)
	}
	if m.entries >= entriesMax {
		err = m.appendPending()
	}
	return err
}

func (m *marks) appendPending() error {
	keys := slices.SortedFunc(maps.Keys(m.pending), func(a, b markKey) int {
		return cmp.Compare(m.pending[a].sequence, m.pending[b].sequence)
	})
	var text []byte
	for _, k := range keys {
		text = appendEntry(text, k, m.pending[k])
	}
	n, err := m.file.Write(text)
	for _, k := range keys[:n/entryBytes] {
		delete(m.pending, k)
		m.entries++
	}
	return err
}

// last is the number of a session's last tuple that was spooled.
func (m *marks) last(session uint64, stream string) int64 {
	id, _ := streamID(stream)
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.seqs[markKey{session, id}].seq
}

// found examines a batch of the spool that may lack an entry.
func (m *marks) found(e measure.Envelope) {
	id, ok := streamID(e.Stream)
	m.mu.Lock()
	recorded := m.covered[lineKey{id, e.Epoch}] > e.Sequence
	m.mu.Unlock()
	if !ok || recorded {
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
		m.record(session, e.Key, seq)
	}
}

// lastOf finds the highest tuple number of each session in a batch.
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
	return errors.Join(m.flush(), m.file.Close())
}
