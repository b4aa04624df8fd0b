// Package backup copies a server's data directory while the server runs, and restores it.
//
// A running server has its archive locked, so it makes the copy itself: it listens on a
// socket in its data directory, which only its own user and root can reach, writes a
// snapshot into the directory on request, and removes it when the client disconnects. The
// client copies the snapshot to its destination with a list of checksums.
package backup

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

const (
	// SocketFile is the socket in the data directory.
	SocketFile = "backup.socket"
	// ArchiveFile is the archive in a backup.
	ArchiveFile = "archive.duckdb"
	// IncompleteFile marks a directory to which a backup is being restored.
	IncompleteFile = "restore.incomplete"

	manifestFile   = "backup.json"
	manifestFormat = 1
	lockFile       = "lock"
)

// Errors that callers distinguish.
var (
	// ErrNotEmpty is a destination that has other contents.
	ErrNotEmpty = errors.New("the directory is not empty; choose another, or an empty one")
	// ErrDamaged is a backup that is incomplete, or whose files have changed.
	ErrDamaged = errors.New("the backup is damaged")
	// ErrRunning is a data directory that a server uses.
	ErrRunning = errors.New("a server uses the data directory; stop it first")
)

// Manifest lists the files of a backup. It is written last: a backup without it is
// incomplete.
type Manifest struct {
	Format int `json:"format"`
	// Version is the program that made the backup.
	Version string    `json:"version"`
	Time    time.Time `json:"time"`
	Files   []File    `json:"files"`
}

// File of a backup. Its path is relative, with slashes.
type File struct {
	Path   string `json:"path"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

// Bytes of all files.
func (m *Manifest) Bytes() (sum int64) {
	for _, file := range m.Files {
		sum += file.Bytes
	}
	return sum
}

// Progress is called about once a second with the bytes done, and the total if it is
// known.
type Progress func(what string, done, total int64)

// temporary are files that package store is about to rename.
var temporary = regexp.MustCompile(`\.(json|pem|crt|token)\.[0-9]+$`)

// filesOf lists the files of a data directory that belong into a backup, except the
// archive.
func filesOf(folder string, skip func(path string) bool) (paths []string, err error) {
	err = filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // replaced meanwhile
		}
		if err != nil {
			return err
		}
		name, err := filepath.Rel(folder, path)
		if err != nil {
			return err
		}
		switch {
		case skip(path):
			if entry.IsDir() {
				return fs.SkipDir
			}
		case !entry.Type().IsRegular(), name == lockFile, name == manifestFile, temporary.MatchString(name):
		default:
			paths = append(paths, name)
		}
		return nil
	})
	return paths, err
}

// ofArchive reports whether a path is the archive's file or one of those beside it.
func ofArchive(archive, path string) bool {
	return path == archive || strings.HasPrefix(path, archive+".")
}

// copyFile copies and syncs a file, and returns its size and checksum.
func copyFile(from, to string, done func(int64)) (File, error) {
	source, err := os.Open(from)
	if err != nil {
		return File{}, err
	}
	defer source.Close()
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return File{}, err
	}
	target, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return File{}, err
	}
	sum := sha256.New()
	size, err := io.Copy(io.MultiWriter(target, sum, counter(done)), source)
	err = errors.Join(err, target.Sync(), target.Close())
	return File{Bytes: size, SHA256: hex.EncodeToString(sum.Sum(nil))}, err
}

type counter func(int64)

func (c counter) Write(b []byte) (int, error) {
	c(int64(len(b)))
	return len(b), nil
}

// meter calls a Progress about once a second.
func meter(progress Progress, what string, total int64) func(int64) {
	sum, last := int64(0), time.Now()
	return func(n int64) {
		sum += n
		if progress != nil && time.Since(last) >= time.Second {
			last = time.Now()
			progress(what, sum, total)
		}
	}
}

// empty fails unless the folder is empty or does not exist.
func empty(folder string) error {
	entries, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && len(entries) > 0 {
		err = ErrNotEmpty
	}
	return err
}

// clear removes the contents of a folder.
func clearFolder(folder string) error {
	entries, err := os.ReadDir(folder)
	for _, entry := range entries {
		err = errors.Join(err, os.RemoveAll(filepath.Join(folder, entry.Name())))
	}
	return err
}

func syncFolder(path string) error {
	folder, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

func wrap(what, path string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %s: %w", what, path, err)
}
