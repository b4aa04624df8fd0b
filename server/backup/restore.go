package backup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"pillion.dev/internal/store"
)

// ReadManifest reads the list of a backup's files.
func ReadManifest(folder string) (m Manifest, err error) {
	found, err := store.Load(filepath.Join(folder, manifestFile), &m)
	switch {
	case err != nil:
	case !found:
		err = fmt.Errorf("%w: it has no %s", ErrDamaged, manifestFile)
	case m.Format > manifestFormat:
		err = fmt.Errorf("%w: format %d of version %q, this program reads up to %d", store.ErrNewer, m.Format, m.Version, manifestFormat)
	}
	for _, file := range m.Files {
		if err == nil && !filepath.IsLocal(filepath.FromSlash(file.Path)) {
			err = fmt.Errorf("%w: path %.100q", ErrDamaged, file.Path)
		}
	}
	return m, wrap("read backup", folder, err)
}

// Restore copies a backup to an empty or new data directory, and the archive to its path.
// Every file is compared with its checksum; after an error the directory is empty again.
func Restore(from, data, archive string, progress Progress) (Manifest, error) {
	m, err := ReadManifest(from)
	if err != nil {
		return m, err
	}
	if err := empty(data); err != nil {
		return m, wrap("restore to", data, err)
	}
	for _, path := range []string{archive, archive + ".wal"} {
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			return m, wrap("restore archive to", path, ErrNotEmpty)
		}
	}
	return m, wrap("restore to", data, restore(m, from, data, archive, progress))
}

func restore(m Manifest, from, data, archive string, progress Progress) (err error) {
	if err := os.MkdirAll(data, 0o700); err != nil {
		return err
	}
	marker := filepath.Join(data, IncompleteFile)
	if err := os.WriteFile(marker, nil, 0o600); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, clearFolder(data))
		}
	}()
	done := meter(progress, "restore", m.Bytes())
	made := []string{data}
	for _, want := range m.Files {
		to := filepath.Join(data, filepath.FromSlash(want.Path))
		switch want.Path {
		case ArchiveFile:
			to = archive
		case ArchiveFile + ".wal":
			to = archive + ".wal"
		}
		got, err := copyFile(filepath.Join(from, filepath.FromSlash(want.Path)), to, done)
		if err == nil && (got.Bytes != want.Bytes || got.SHA256 != want.SHA256) {
			err = fmt.Errorf("%w: %s has %d bytes with SHA-256 %s, want %d with %s", ErrDamaged, want.Path, got.Bytes, got.SHA256, want.Bytes, want.SHA256)
		}
		if err != nil {
			if to == archive { // perhaps in another folder
				err = errors.Join(err, os.Remove(to))
			}
			return err
		}
		made = append(made, to, filepath.Dir(to))
	}
	if err := GiveAway(data, made...); err != nil {
		return err
	}
	if err := os.Remove(marker); err != nil {
		return err
	}
	return syncFolder(data)
}

// GiveAway gives files that root has written to the owner of the data directory.
func GiveAway(data string, paths ...string) error {
	info, err := os.Stat(data)
	if err != nil {
		return err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok || os.Geteuid() != 0 || owner.Uid == 0 {
		return nil
	}
	for _, path := range paths {
		if err := os.Chown(path, int(owner.Uid), int(owner.Gid)); err != nil {
			return err
		}
	}
	return nil
}
