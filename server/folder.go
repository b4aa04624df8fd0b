package server

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"pillion.dev/internal/store"
	"pillion.dev/server/backup"
)

const (
	lockFile = "lock"
	// unstartedFile exists from the creation of the tokens until a start succeeds.
	unstartedFile = "unstarted"
)

// lockFolder creates the data directory, accessible to this user only, and locks it
// against other servers.
func (s *server) lockFolder() error {
	unix.Umask(0o077) // the database creates its files with it
	if err := os.MkdirAll(s.config.Folder, 0o700); err != nil {
		return fmt.Errorf("create data directory: %w", err)
	}
	if err := s.restrictFolder(); err != nil {
		return err
	}
	lock, err := os.OpenFile(filepath.Join(s.config.Folder, lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("lock data directory: %w; nothing is lost: delete it if no server uses the directory", err)
	}
	s.lock = lock
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return fmt.Errorf("lock data directory %s: in use by another server: %w", s.config.Folder, err)
	}
	if _, err := os.Lstat(filepath.Join(s.config.Folder, backup.IncompleteFile)); err == nil {
		return fmt.Errorf("open data directory %s: a restore was interrupted; empty the directory and repeat it", s.config.Folder)
	}
	if err := store.CheckFormat(s.config.Folder, "data directory", folderFormat); err != nil {
		return err
	}
	return nil
}

// folderFormat is the format of the data directory; a version that changes its files so
// that earlier versions misread them increases it.
const folderFormat = 1

// restrictFolder removes other users' permissions from a directory that is empty or
// already a server's. One with other contents may be shared on purpose: it is left
// unchanged, with a warning in the log.
func (s *server) restrictFolder() error {
	folder := s.config.Folder
	entries, err := os.ReadDir(folder)
	if err != nil {
		return fmt.Errorf("read data directory: %w", err)
	}
	_, missing := os.Lstat(filepath.Join(folder, lockFile))
	ours := len(entries) == 0 || missing == nil
	err = filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // a running server removed it; locking will fail
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
			s.log.Warn("other users can read the data directory, which also holds other files; use a dedicated directory, or chmod 700",
				"path", path, "mode", info.Mode().Perm())
			return fs.SkipAll
		}
		s.log.Warn("removed other users' permissions", "path", path, "mode", info.Mode().Perm())
		return os.Chmod(path, info.Mode().Perm()&^0o077)
	})
	if err != nil {
		return fmt.Errorf("restrict permissions of %s: %w", folder, err)
	}
	return nil
}

// unstarted reports whether no start with these tokens has succeeded yet: one that
// failed after creating them has not told the user about them.
func (s *server) unstarted(created bool) (bool, error) {
	path := filepath.Join(s.config.Folder, unstartedFile)
	if created {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			return false, fmt.Errorf("note first start: %w", err)
		}
		return true, nil
	}
	_, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// started records that the first start has succeeded.
func (s *server) started() error {
	if !s.first {
		return nil
	}
	return os.Remove(filepath.Join(s.config.Folder, unstartedFile))
}
