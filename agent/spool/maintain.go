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
)

// lockFolder locks the folder against other processes while the file is open.
func lockFolder(dir string) (*os.File, error) {
	file, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		holder, _ := os.ReadFile(file.Name())
		file.Close()
		return nil, fmt.Errorf("%w (process %s)", ErrInUse, strings.TrimSpace(string(holder)))
	}
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("lock: %w", err)
	}
	// The process ID is informational; the lock itself is the kernel's.
	if err := file.Truncate(0); err == nil {
		_, _ = fmt.Fprintln(file, os.Getpid())
	}
	return file, nil
}

// maintain syncs, records acknowledgements and retries failed writes, once a second and
// when a segment ends.
func (s *Spool) maintain() {
	ticks := time.NewTicker(diskRetry)
	defer ticks.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-ticks.C:
			s.retryDisk()
			s.sync()
			s.savePosition()
		case <-s.sealed:
			s.sync()
		}
	}
}

func (s *Spool) retryDisk() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.flushMemory()
}

// sync flushes the files to the disk. It does not block writers.
func (s *Spool) sync() {
	s.mu.Lock()
	sealed := s.toSync
	s.toSync = nil
	var current *os.File
	if s.unsynced {
		current = s.file
	}
	work := s.unsynced || len(sealed) > 0
	s.unsynced = false
	s.mu.Unlock()
	if !work {
		return
	}
	var err error
	for _, file := range sealed {
		err = errors.Join(err, file.Sync(), file.Close())
	}
	if current != nil {
		// Only this function closes files, so it is open although it may be sealed by now.
		err = errors.Join(err, current.Sync())
	}
	if err = errors.Join(err, syncFolder(s.dir)); err != nil {
		s.log.Warn("sync spool", "error", err)
	}
}

func syncFolder(dir string) error {
	folder, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
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
	s.cancel()
	s.mu.Unlock()
	s.stopped.Wait()

	s.mu.Lock()
	s.flushMemory()
	s.seal()
	var err error
	if s.memory != nil {
		err = fmt.Errorf("close spool: %d batches were only in memory and are lost", s.memory.held)
		for _, e := range slices.Clone(s.memory.entries) {
			s.drop(e)
		}
	}
	s.mu.Unlock()
	s.sync()
	s.savePosition()
	return errors.Join(err, s.lock.Close())
}
