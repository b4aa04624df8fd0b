package server

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

const lockFile = "lock"

// takeFolder makes the folder, which is for this user alone, and keeps other
// servers out of it.
func (s *server) takeFolder() error {
	unix.Umask(0o077) // the database makes its files by it
	if err := os.MkdirAll(s.config.Folder, 0o700); err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	if err := s.closeFolder(); err != nil {
		return err
	}
	lock, err := os.OpenFile(filepath.Join(s.config.Folder, lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("lock folder: %w", err)
	}
	s.lock = lock
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return fmt.Errorf("lock folder %s: another server uses it: %w", s.config.Folder, err)
	}
	return nil
}

// closeFolder takes rights of other users away from a folder that is empty or is a
// server's already. One that holds other things may be open for a reason: it stays
// so, and the log says it.
func (s *server) closeFolder() error {
	folder := s.config.Folder
	entries, err := os.ReadDir(folder)
	if err != nil {
		return fmt.Errorf("read folder: %w", err)
	}
	_, missing := os.Lstat(filepath.Join(folder, lockFile))
	ours := len(entries) == 0 || missing == nil
	err = filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // of a server that runs, which the lock will show
		}
		if err != nil {
			return err
		}
		if !entry.IsDir() && !entry.Type().IsRegular() {
			return nil
		}
		info, err := entry.Info()
		if err != nil || info.Mode().Perm()&0o077 == 0 {
			return nil
		}
		if !ours {
			s.log.Warn("others may look into the data folder, which holds more than the server's data; use a folder of its own, or chmod 700",
				"path", path, "mode", info.Mode().Perm())
			return fs.SkipAll
		}
		s.log.Warn("take rights of other users away", "path", path, "mode", info.Mode().Perm())
		return os.Chmod(path, info.Mode().Perm()&^0o077)
	})
	if err != nil {
		return fmt.Errorf("close folder %s to other users: %w", folder, err)
	}
	return nil
}
