package spool

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"pillion.dev/internal/every"
	"pillion.dev/measure"
)

const (
	suffix = ".spool"
	// fileMax bounds the file that Open reads into memory.
	fileMax = 80 << 20
)

// file holds batches in order of writing. It is deleted when none is held.
type file struct {
	number, epoch uint64
	size          int64
	written, held amount   // held are not done
	slot          int      // in the counts
	opened        *os.File // nil until first used
	removed       bool
	// unrecorded: Options.Recorded failed after a batch was written.
	unrecorded bool
}

func (f *file) name() string {
	return fmt.Sprintf("%012d-%016x%s", f.number, f.epoch, suffix)
}

// parseFileName parses the name of a file.
func parseFileName(name string) (number, epoch uint64, ok bool) {
	n, err := fmt.Sscanf(name, "%d-%x"+suffix, &number, &epoch)
	return number, epoch, n == 2 && err == nil && name == (&file{number: number, epoch: epoch}).name()
}

func (s *Spool) path(f *file) string { return filepath.Join(s.dir, f.name()) }

// open returns the file's handle, which remove and Close close.
func (s *Spool) open(f *file) (opened *os.File, err error) {
	if f.removed {
		return nil, os.ErrNotExist
	}
	if f.opened == nil {
		f.opened, err = os.OpenFile(s.path(f), os.O_RDWR|os.O_CREATE, 0o600)
	}
	return f.opened, err
}

// hold records that a batch is in the file.
func (f *file) hold(e *entry, offset int64) {
	e.file, e.offset = f, offset
	f.held = f.held.plus(1, int64(e.rows))
}

// lockFolder locks the folder against other processes while the file is open.
func lockFolder(dir string) (*os.File, error) {
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock: %w; nothing is lost: delete it if no agent uses the directory", err)
	}
	err = unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		holder, _ := os.ReadFile(lock.Name())
		lock.Close()
		return nil, fmt.Errorf("%w (process %s)", ErrInUse, strings.TrimSpace(string(holder)))
	}
	if err != nil {
		lock.Close()
		return nil, fmt.Errorf("lock: %w", err)
	}
	// The process ID is informational; the lock itself is the kernel's.
	if err := lock.Truncate(0); err == nil {
		_, _ = fmt.Fprintln(lock, os.Getpid())
	}
	return lock, nil
}

// recover reads the batches that an earlier process left.
func (s *Spool) recover() error {
	names, err := os.ReadDir(s.dir) // sorted, hence in order of writing
	if err != nil {
		return err
	}
	if err := s.counts.open(s.dir); err != nil {
		s.log.Warn("the counts of batches in the spool are lost: those missing in damaged files are not counted at this start", "error", err)
	}
	for _, found := range names {
		number, epoch, ok := parseFileName(found.Name())
		if !ok || !found.Type().IsRegular() {
			continue
		}
		s.number = max(s.number, number)
		info, err := found.Info()
		if err != nil {
			return err
		}
		s.load(&file{number: number, epoch: epoch, size: info.Size()})
	}
	s.countMissing()
	for s.diskBytes > s.options.LimitBytes && s.makeRoom() {
	}
	return nil
}

// load adds the batches of a file.
func (s *Spool) load(f *file) {
	s.diskBytes += f.size
	data, err := []byte(nil), error(ErrTooLarge)
	if f.size <= fileMax {
		// A bad sector must not stop the agent.
		data, err = os.ReadFile(s.path(f))
	}
	skipped := scan(data, f.epoch, func(offset int64, envelope measure.Envelope, delivered bool) {
		f.written = f.written.plus(1, int64(envelope.Rows))
		if s.options.Found != nil {
			s.options.Found(envelope)
		}
		if !delivered {
			e := s.newEntry(&envelope)
			f.hold(e, offset)
			s.hold(e)
		}
	})
	if err != nil || skipped > 0 {
		s.log.Warn("skip what cannot be read of the spool", "file", f.name(), "bytes", skipped, "error", err)
	}
	if err != nil { // or it is deleted
		_ = os.Rename(s.path(f), s.path(f)+".damaged")
	}
	s.countLost(f)
	s.note(f)
	if f.held.batches == 0 {
		s.remove(f)
	}
}

// read reads a batch and verifies it again: it may have been damaged since Open.
func (s *Spool) read(e *entry) ([]byte, error) {
	s.mu.Lock()
	opened, err := s.open(e.file)
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	data := make([]byte, e.size)
	if _, err := opened.ReadAt(data, e.offset); err != nil {
		return nil, err
	}
	envelope, _, ok := parseRecord(data, e.line.epoch)
	if !ok || envelope.Sequence != e.sequence {
		return nil, errors.New("damaged record")
	}
	return envelope.Payload, nil
}

// write appends a batch to the active file.
func (s *Spool) write(e *entry, payload []byte) error {
	for s.diskBytes+e.size > s.options.LimitBytes && s.makeRoom() {
	}
	err := s.append(e, payload)
	if err != nil {
		s.seal()
		s.tryDisk = time.Now().Add(diskRetry)
		s.stats.WriteErrors++
		if s.diskError == nil {
			s.log.Warn("writing to disk fails, batches are held in memory", "error", err)
		}
		s.diskError = err
		return err
	}
	if s.diskError != nil {
		s.diskError = nil
		s.log.Info("writing to disk works again")
	}
	f := s.active
	f.hold(e, f.size)
	f.written = f.written.plus(1, int64(e.rows))
	s.counts.save(f)
	f.size += e.size
	s.diskBytes += e.size
	e.report(nil)
	s.note(f)
	if n := len(s.unsynced); n == 0 || s.unsynced[n-1] != f {
		s.unsynced = append(s.unsynced, f)
	}
	if f.size >= s.options.fileBytes {
		s.seal()
	}
	return nil
}

// append writes a record at the end of the active file.
func (s *Spool) append(e *entry, payload []byte) error {
	if s.unrecorded > 0 && s.diskBytes+e.size > s.options.LimitBytes {
		return errUnrecorded
	}
	if s.active == nil {
		s.number++
		s.active = &file{number: s.number, epoch: s.epoch, slot: s.counts.take()}
	}
	f := s.active
	opened, err := s.open(f)
	if err != nil {
		return err
	}
	envelope := measure.Envelope{Key: e.key(), Rows: int(e.rows), Checksum: e.checksum, Payload: payload}
	_, err = opened.WriteAt(header(&envelope), f.size)
	if err == nil {
		_, err = opened.WriteAt(payload, f.size+e.size-int64(len(payload)))
	}
	if err != nil {
		// Remove the partial record; if even that fails the next Open skips it.
		_ = opened.Truncate(f.size)
	}
	return err
}

// seal ends the active file.
func (s *Spool) seal() {
	f := s.active
	s.active = nil
	if f != nil && f.held.batches == 0 {
		s.remove(f)
	}
}

// release records that a batch in a file is done, so that it is not sent again after a
// restart.
func (s *Spool) release(e *entry) {
	f := e.file
	f.held = f.held.plus(-1, -int64(e.rows))
	if f.held.batches == 0 && f != s.active {
		s.remove(f)
	}
	if f.removed {
		return
	}
	s.counts.save(f)
	opened, err := s.open(f)
	if err == nil {
		_, err = opened.WriteAt([]byte{deliveredMark}, e.offset)
	}
	if err != nil {
		s.log.Debug("record delivery in spool", "error", err)
	}
}

// errUnrecorded is why nothing is written to a full spool.
var errUnrecorded = errors.New("the spool is full, and no file can be deleted before the progress of its sources is recorded")

// note finds out whether the contents of a file are recorded.
func (s *Spool) note(f *file) {
	unrecorded := s.options.Recorded != nil && s.options.Recorded() != nil
	if unrecorded && !f.unrecorded {
		s.unrecorded++
	} else if f.unrecorded && !unrecorded {
		s.unrecorded--
	}
	f.unrecorded = unrecorded
}

// removable reports whether a file may be deleted.
func (s *Spool) removable(f *file) bool {
	if f.unrecorded {
		s.note(f)
	}
	return !f.unrecorded
}

// unpin deletes the files that were kept only because their contents were not recorded, or their counts not cleared.
func (s *Spool) unpin() {
	pinned := s.pinned
	s.pinned = nil
	for _, f := range pinned {
		s.remove(f)
	}
}

// remove deletes a file without batches, now or when its contents are recorded and the disk lets its counts be cleared:
// otherwise these batches would seem to be missing at the next start.
func (s *Spool) remove(f *file) {
	if f.removed {
		return
	}
	if !s.removable(f) || s.counts.clear(f) != nil {
		s.pinned = append(s.pinned, f)
		return
	}
	s.unlink(f)
}

func (s *Spool) unlink(f *file) {
	f.removed = true
	s.diskBytes -= f.size
	f.opened.Close()
	if err := os.Remove(s.path(f)); err != nil && !errors.Is(err, os.ErrNotExist) {
		s.log.Warn("remove file of spool", "error", err)
	}
}

// makeRoom drops the oldest file on the disk. It reports whether there was one.
func (s *Spool) makeRoom() bool {
	for _, e := range s.queue {
		if e.state == done || e.file == nil || e.file.removed || !s.removable(e.file) {
			continue
		}
		if !s.full {
			s.full = true
			s.log.Warn("spool is full, dropping the oldest batches", "limit_bytes", s.options.LimitBytes)
		}
		s.evict(e.file)
		return true
	}
	return false
}

// evict drops a file with its batches.
func (s *Spool) evict(f *file) {
	if f == s.active {
		s.active = nil
	}
	// Batches in flight stay in the queue, but not on the disk. If the counts cannot be cleared, room matters more.
	_ = s.counts.clear(f)
	s.unlink(f)
	for _, e := range slices.Clone(s.queue) {
		if e.file == f {
			s.drop(e)
		}
	}
}

// store writes a batch to the disk, or holds it in memory if that fails. The oldest in
// memory are dropped to make room.
func (s *Spool) store(e *entry, payload []byte) {
	s.hold(e)
	if retry := len(s.memory) == 0 || !time.Now().Before(s.tryDisk); retry && s.flushMemory() && s.write(e, payload) == nil {
		return
	}
	e.payload = payload
	s.memory = append(s.memory, e)
	s.stats.MemoryBytes += e.size
	if e.durable {
		s.durableBytes += e.size
	}
	for _, old := range s.memory {
		if s.stats.MemoryBytes-s.durableBytes > s.options.MemoryBytes && old.state == waiting && !old.durable {
			s.end(old, dropped)
		}
	}
}

// leaveMemory frees the memory of a batch that is on the disk, or done.
func (s *Spool) leaveMemory(e *entry) {
	s.stats.MemoryBytes -= e.size
	e.payload = nil
	if e.durable {
		s.durableBytes -= e.size
		s.written.Broadcast()
	}
}

// flushMemory writes the batches in memory to the disk. It reports whether all were
// written.
func (s *Spool) flushMemory() bool {
	for ; len(s.memory) > 0; s.memory = s.memory[1:] {
		e := s.memory[0]
		if e.state == done {
			continue
		}
		if s.write(e, e.payload) != nil {
			return false
		}
		s.leaveMemory(e)
		if e.durable { // now it may be sent
			s.taken = 0
			s.stir()
		}
	}
	return true
}

// maintain syncs files and retries failed writes, once a second.
func (s *Spool) maintain() {
	every.Do(s.ctx, diskRetry, func() {
		s.mu.Lock()
		s.flushMemory()
		s.unpin()
		s.mu.Unlock()
		s.sync()
	})
}

// sync flushes the remaining files to the disk. It does not block writers.
func (s *Spool) sync() {
	s.mu.Lock()
	var paths []string
	for _, f := range s.unsynced {
		if !f.removed {
			paths = append(paths, s.path(f))
		}
	}
	s.unsynced = nil
	s.mu.Unlock()
	if len(paths) == 0 {
		return
	}
	var err error
	for _, path := range append(paths, filepath.Join(s.dir, countsFile), s.dir) {
		err = errors.Join(err, syncPath(path))
	}
	if err != nil {
		s.log.Warn("sync spool", "error", err)
	}
}

func syncPath(path string) error {
	opened, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil // delivered meanwhile
	}
	if err != nil {
		return err
	}
	return errors.Join(opened.Sync(), opened.Close())
}

// Close stops Run, flushes the spool to the disk and unlocks the folder. Batches still in
// memory because writing fails are lost; the error says how many.
func (s *Spool) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	s.written.Broadcast()
	s.cancel()
	s.mu.Unlock()
	s.stopped.Wait()

	s.mu.Lock()
	var err error
	if !s.flushMemory() {
		err = fmt.Errorf("close spool: %d batches were only in memory and are lost", len(s.memory))
		for _, e := range s.memory {
			s.drop(e)
		}
	}
	s.seal()
	s.unpin()
	for _, f := range s.pinned {
		f.opened.Close()
	}
	for _, e := range s.queue {
		if e.file != nil {
			e.file.opened.Close()
		}
	}
	s.mu.Unlock()
	s.sync()
	return errors.Join(err, s.counts.file.Close(), s.lock.Close())
}
