package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"pillion.dev/internal/store"
)

// stateRoot holds a folder for each lab that is up:
//
//	spec.json         the completed spec, written before anything is created
//	namespaces.json   the cookies of the hosts' namespaces
//	up                present once the lab is complete
//	<link>.config     the configuration of an emulator
//	<link>.pid        its process
//	<link>.socket     its control socket
//	<link>.json       its truth, unless the lab file sets another path
//	<link>.log        its standard error
//	run-<host>.log    the output of a host's commands
//
// The folder itself is locked while a lab is being changed.
const stateRoot = "/run/pillion/lab"

// lockGrace is how long an operation waits for another one to finish.
const lockGrace = 10 * time.Second

// ErrBusy is returned while another process takes the same lab up or down.
var ErrBusy = errors.New("another process is changing it")

// state is the folder of one lab.
type state string

func stateOf(lab string) state { return state(filepath.Join(stateRoot, lab)) }

func (s state) path(name string) string { return filepath.Join(string(s), name) }

func (s state) has(name string) bool {
	_, err := os.Stat(s.path(name))
	return err == nil
}

// lock takes the lab for changes; with create it makes the folder. Without a
// folder it returns fs.ErrNotExist. The lock ends with the process or release.
func (s state) lock(ctx context.Context, create bool) (release func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, lockGrace)
	defer cancel()
	retry := time.NewTicker(20 * time.Millisecond)
	defer retry.Stop()
	for {
		if create {
			if err := os.MkdirAll(string(s), 0o755); err != nil {
				return nil, fmt.Errorf("create lab state: %w", err)
			}
		}
		folder, err := s.tryLock()
		if err == nil {
			return func() { folder.Close() }, nil
		}
		gone := errors.Is(err, fs.ErrNotExist)
		if gone && !create || !gone && !errors.Is(err, unix.EWOULDBLOCK) {
			return nil, err
		}
		select {
		case <-retry.C:
		case <-ctx.Done():
			return nil, fmt.Errorf("lock lab %s: %w", filepath.Base(string(s)), ErrBusy)
		}
	}
}

// tryLock locks the folder and checks that it has not been replaced.
func (s state) tryLock() (*os.File, error) {
	folder, err := os.Open(string(s))
	if err != nil {
		return nil, fmt.Errorf("open lab state: %w", err)
	}
	if err := unix.Flock(int(folder.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		folder.Close()
		return nil, fmt.Errorf("lock lab state: %w", err)
	}
	locked, err := folder.Stat()
	if err == nil {
		var placed fs.FileInfo
		if placed, err = os.Stat(string(s)); err == nil && !os.SameFile(locked, placed) {
			err = fs.ErrNotExist
		}
	}
	if err != nil {
		folder.Close()
		return nil, fmt.Errorf("check lab state: %w", err)
	}
	return folder, nil
}

// save replaces a JSON file atomically.
func (s state) save(name string, value any) error {
	return store.Save(s.path(name), value, 0o644)
}

func (s state) load(name string, value any) error {
	text, err := os.ReadFile(s.path(name))
	if err != nil {
		return fmt.Errorf("load lab state: %w", err)
	}
	if err := json.Unmarshal(text, value); err != nil {
		return fmt.Errorf("load lab state %s: %w", s.path(name), err)
	}
	return nil
}
