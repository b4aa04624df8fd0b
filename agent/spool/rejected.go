package spool

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"pillion.dev/measure"
)

// rejectedFolder holds rejected batches as Arrow IPC streams, for inspection. Nothing in
// Pillion reads them.
const rejectedFolder = "rejected"

// keepRejected stores a rejected batch. The oldest are deleted to make room.
func (s *Spool) keepRejected(envelope measure.Envelope, reason error) {
	name := fmt.Sprintf("%s-%016x-%012d.arrows", envelope.Stream, envelope.Epoch, envelope.Sequence)
	s.log.Error("batch rejected permanently", "stream", envelope.Stream, "sequence", envelope.Sequence,
		"rows", envelope.Rows, "kept", filepath.Join(rejectedFolder, name), "error", reason)
	if err := s.putAside(name, envelope.Payload); err != nil {
		s.log.Warn("store rejected batch", "error", err)
	}
}

func (s *Spool) putAside(name string, payload []byte) error {
	s.asideLock.Lock()
	defer s.asideLock.Unlock()
	folder := filepath.Join(s.dir, rejectedFolder)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	if err := s.makeRoomAside(folder, int64(len(payload))); err != nil {
		return err
	}
	path := filepath.Join(folder, name)
	if err := os.WriteFile(path, payload, 0o600); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}

func (s *Spool) makeRoomAside(folder string, size int64) error {
	if size > s.options.RejectedBytes {
		return fmt.Errorf("%d bytes, the folder holds %d: %w", size, s.options.RejectedBytes, ErrTooLarge)
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	var files []fs.FileInfo
	total := size
	for _, entry := range entries {
		if info, err := entry.Info(); err == nil && info.Mode().IsRegular() {
			files = append(files, info)
			total += info.Size()
		}
	}
	slices.SortFunc(files, func(a, b fs.FileInfo) int { return a.ModTime().Compare(b.ModTime()) })
	for _, file := range files {
		if total <= s.options.RejectedBytes {
			return nil
		}
		if err := os.Remove(filepath.Join(folder, file.Name())); err != nil {
			return err
		}
		total -= file.Size()
	}
	return nil
}
