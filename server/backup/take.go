package backup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"pillion.dev/internal/store"
	"pillion.dev/internal/version"
)

// Take copies a data directory to an empty or new destination. If no server uses the
// directory, it locks and copies it; archive is the path of the archive then.
func Take(ctx context.Context, data, archive, destination string, progress Progress) (Manifest, error) {
	if err := empty(destination); err != nil {
		return Manifest{}, wrap("back up to", destination, err)
	}
	if _, err := os.Stat(data); err != nil {
		return Manifest{}, wrap("back up", data, err)
	}
	release, err := Lock(data)
	if err == nil {
		defer release()
		m, err := take(data, archive, destination, progress)
		return m, wrap("back up to", destination, err)
	}
	if !errors.Is(err, ErrRunning) {
		return Manifest{}, wrap("back up", data, err)
	}
	folder, end, err := request(ctx, data, progress)
	if err != nil {
		return Manifest{}, wrap("back up the running server of", data, err)
	}
	defer end()
	m, err := take(folder, filepath.Join(folder, ArchiveFile), destination, progress)
	return m, wrap("back up to", destination, err)
}

// Lock locks a data directory as a server does, or returns ErrRunning.
func Lock(data string) (release func(), err error) {
	file, err := os.OpenFile(filepath.Join(data, lockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err != nil {
		file.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = ErrRunning
		}
		return nil, err
	}
	return func() { file.Close() }, nil
}

// request has the running server make a snapshot, which exists until end is called.
func request(ctx context.Context, data string, progress Progress) (folder string, end func(), err error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(data, SocketFile))
	if err != nil {
		return "", nil, err
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	end = func() { stop(); conn.Close() }
	for answers := json.NewDecoder(conn); ; {
		var m message
		if err := answers.Decode(&m); err != nil {
			end()
			if ctx.Err() != nil {
				err = ctx.Err()
			}
			return "", nil, fmt.Errorf("the server does not answer: %w", err)
		}
		switch {
		case m.Error != "":
			end()
			return "", nil, errors.New(m.Error)
		case m.Folder != "":
			return m.Folder, end, nil
		case progress != nil:
			progress("copy archive", m.Bytes, m.Of)
		}
	}
}

func take(folder, archive, destination string, progress Progress) (m Manifest, err error) {
	if err := os.MkdirAll(destination, 0o700); err != nil {
		return m, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, clearFolder(destination))
		}
	}()
	m = Manifest{Format: manifestFormat, Version: version.Short(), Time: time.Now().UTC()}
	names, err := filesOf(folder, func(path string) bool { return ofArchive(archive, path) })
	if err != nil {
		return m, err
	}
	sources := map[string]string{}
	for _, name := range names {
		sources[name] = filepath.Join(folder, name)
	}
	for _, suffix := range []string{"", ".wal"} { // a server that crashed leaves its log
		if _, err := os.Stat(archive + suffix); err == nil {
			names, sources[ArchiveFile+suffix] = append(names, ArchiveFile+suffix), archive+suffix
		}
	}
	total := int64(0)
	for _, path := range sources {
		if info, err := os.Stat(path); err == nil {
			total += info.Size()
		}
	}
	done := meter(progress, "write backup", total)
	for _, name := range names {
		file, err := copyFile(sources[name], filepath.Join(destination, name), done)
		if err != nil {
			return m, err
		}
		file.Path = filepath.ToSlash(name)
		m.Files = append(m.Files, file)
	}
	return m, store.Save(filepath.Join(destination, manifestFile), m, 0o600)
}
