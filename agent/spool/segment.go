package spool

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"pillion.dev/measure"
)

const suffix = ".spool"

// segment is one file of batches, or the batches held only in memory.
type segment struct {
	number uint64 // in order of writing
	epoch  uint64
	name   string // of the file; empty in memory
	size   int64  // of the file
	// entries in order of writing; taken of them have been taken, held are not done.
	entries []*entry
	taken   int
	held    int
}

func segmentName(number, epoch uint64) string {
	return fmt.Sprintf("%012d-%016x%s", number, epoch, suffix)
}

// parseSegmentName parses a name made by segmentName.
func parseSegmentName(name string) (number, epoch uint64, ok bool) {
	if n, err := fmt.Sscanf(name, "%d-%x"+suffix, &number, &epoch); n != 2 || err != nil {
		return 0, 0, false
	}
	return number, epoch, name == segmentName(number, epoch)
}

func (s *Spool) path(name string) string { return filepath.Join(s.dir, name) }

// write appends a batch to the active segment.
func (s *Spool) write(e *entry, payload []byte) error {
	size := e.size
	for s.diskBytes+size > s.options.LimitBytes && s.makeRoom() {
	}
	if s.active == nil {
		if err := s.begin(); err != nil {
			return err
		}
	}
	g := s.active
	envelope := measure.Envelope{
		Key:  measure.Key{Stream: e.line.stream, Epoch: e.line.epoch, Sequence: e.sequence},
		Rows: int(e.rows), Checksum: e.checksum, Payload: payload,
	}
	s.header = appendHeader(s.header[:0], &envelope)
	_, err := s.file.WriteAt(s.header, g.size)
	if err == nil {
		_, err = s.file.WriteAt(payload, g.size+int64(len(s.header)))
	}
	if err != nil {
		// Remove the partial record; if even that fails the next Open skips it.
		_ = s.file.Truncate(g.size)
		s.seal()
		return fmt.Errorf("write batch of %q to spool: %w", e.line.stream, err)
	}
	if s.diskError != nil {
		s.diskError = nil
		s.log.Info("writing to disk works again")
	}
	e.offset = g.size
	g.size += size
	s.diskBytes += size
	s.unsynced = true
	return nil
}

// begin creates a new active segment.
func (s *Spool) begin() error {
	s.number++
	g := &segment{number: s.number, epoch: s.epoch, name: segmentName(s.number, s.epoch)}
	file, err := os.OpenFile(s.path(g.name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("create segment of spool: %w", err)
	}
	s.file, s.active = file, g
	at := len(s.segments)
	if s.memory != nil {
		at--
	}
	s.segments = slices.Insert(s.segments, at, g)
	return nil
}

// seal ends the active segment. Its file is synced and closed in the background.
func (s *Spool) seal() {
	g := s.active
	if g == nil {
		return
	}
	s.toSync = append(s.toSync, s.file)
	s.active, s.file = nil, nil
	if g.held == 0 {
		s.remove(g)
	}
	select {
	case s.sealed <- struct{}{}:
	default:
	}
}

// remove deletes the segment and its file.
func (s *Spool) remove(g *segment) {
	i := slices.Index(s.segments, g)
	if i < 0 {
		return
	}
	s.segments = slices.Delete(s.segments, i, i+1)
	s.dirty = true
	if g == s.memory {
		s.memory = nil
		return
	}
	s.diskBytes -= g.size
	if err := os.Remove(s.path(g.name)); err != nil && !errors.Is(err, os.ErrNotExist) {
		s.log.Warn("remove segment of spool", "error", err)
	}
}

// makeRoom drops the oldest segment on the disk. It reports whether there was one.
func (s *Spool) makeRoom() bool {
	for _, g := range s.segments {
		if g.name == "" {
			continue
		}
		if g.held > 0 && !s.full {
			s.full = true
			s.log.Warn("spool is full, dropping the oldest batches", "limit_bytes", s.options.LimitBytes)
		}
		s.evict(g)
		return true
	}
	return false
}

// store writes a batch to the disk, or holds it in memory if that fails.
func (s *Spool) store(e *entry, payload []byte) {
	if s.memory != nil && time.Now().Before(s.tryDisk) || !s.flushMemory() {
		s.keep(e, payload)
		return
	}
	if err := s.write(e, payload); err != nil {
		s.diskFailed(err)
		s.keep(e, payload)
		return
	}
	s.hold(e, s.active)
	e.report(nil)
	if s.active.size >= s.options.SegmentBytes {
		s.seal()
	}
}

// diskFailed delays the next attempt to write.
func (s *Spool) diskFailed(err error) {
	s.tryDisk = time.Now().Add(diskRetry)
	s.stats.WriteErrors++
	if s.diskError == nil {
		s.log.Warn("writing to disk fails, batches are held in memory", "error", err)
	}
	s.diskError = err
}

// keep holds a batch in memory and drops the oldest there to make room.
func (s *Spool) keep(e *entry, payload []byte) {
	if s.memory == nil {
		s.memory = &segment{epoch: s.epoch}
		s.segments = append(s.segments, s.memory)
	}
	e.payload = payload
	s.stats.MemoryBytes += e.size
	g := s.memory
	s.hold(e, g)
	for i := 0; i < len(g.entries) && s.stats.MemoryBytes > s.options.MemoryBytes; i++ {
		if g.entries[i].state == waiting {
			s.end(g.entries[i], dropped)
		}
	}
	// Finished batches leave the head, so that memory does not grow while the disk is
	// full for hours.
	n := 0
	for n < len(g.entries) && g.entries[n].state == done {
		n++
	}
	g.entries = slices.Delete(g.entries, 0, n)
	g.taken = max(g.taken-n, 0)
}

// flushMemory writes the batches in memory to the disk. It reports whether all were
// written.
func (s *Spool) flushMemory() bool {
	for s.memory != nil {
		from := s.memory
		i := slices.IndexFunc(from.entries, func(e *entry) bool { return e.state != done })
		if i < 0 {
			s.remove(from)
			break
		}
		e := from.entries[i]
		if err := s.write(e, e.payload); err != nil {
			s.diskFailed(err)
			return false
		}
		to := s.active
		from.entries = from.entries[i+1:]
		from.taken = max(from.taken-i-1, 0)
		from.held--
		s.stats.MemoryBytes -= e.size
		e.payload, e.segment = nil, to
		to.entries = append(to.entries, e)
		to.held++
		e.report(nil)
		if from.held == 0 {
			s.remove(from)
		}
		if to.size >= s.options.SegmentBytes {
			s.seal()
		}
	}
	return true
}
