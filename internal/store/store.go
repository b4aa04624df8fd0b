// Package store keeps small documents in files, mostly as JSON. Files are replaced
// atomically: after a crash a file has either its old or its new content.
package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Save replaces the file and syncs it to disk; as Write does if it is one of Files.
func Save(path string, value any, mode fs.FileMode) error {
	text, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return fmt.Errorf("save %s: %w", path, err)
	}
	if err := Write(path, append(text, '\n'), mode); err != nil {
		return fmt.Errorf("save %s: %w", path, err)
	}
	return nil
}

// Keep is Replace unless the file has that text and mode: a full disk refuses even a file that stays the same.
func Keep(path string, text []byte, mode fs.FileMode) error {
	info, err := os.Lstat(path)
	if before, failed := os.ReadFile(path); err == nil && failed == nil && info.Mode() == mode && bytes.Equal(before, text) {
		return nil
	}
	return Replace(path, text, mode)
}

// Replace replaces the file and syncs it to disk.
func Replace(path string, text []byte, mode fs.FileMode) error {
	return replace(path, text, mode, func() error { return nil })
}

// replace calls before when the new file is complete, and the old one still there.
func replace(path string, text []byte, mode fs.FileMode, before func() error) (err error) {
	file, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return full(err)
	}
	defer func() {
		if err != nil {
			os.Remove(file.Name())
			err = full(err)
		}
	}()
	_, err = file.Write(text)
	if err = errors.Join(err, file.Chmod(mode), file.Sync(), file.Close()); err != nil {
		return err
	}
	if err = before(); err != nil {
		return err
	}
	if err = os.Rename(file.Name(), path); err != nil {
		return err
	}
	return SyncFolder(filepath.Dir(path))
}

// full says it in words if an error means that the disk is full.
func full(err error) error {
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		return fmt.Errorf("the disk is full: %w", err)
	}
	return err
}

// SyncFolder makes the names in a folder durable.
func SyncFolder(path string) error {
	folder, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

// Load reads the file into value, as Read does if it is one of Files; found is false if it does not exist.
func Load(path string, value any) (found bool, err error) {
	text, err := Read(path, func(text []byte) error { return json.Unmarshal(text, value) })
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, fmt.Errorf("load %s: %w", path, err)
	}
	return text != nil, nil
}
