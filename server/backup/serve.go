package backup

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// message is a line that the server sends to the client.
type message struct {
	// Bytes of the archive's copy so far, and the size of the archive.
	Bytes int64 `json:"bytes,omitempty"`
	Of    int64 `json:"of,omitempty"`
	// Folder is the complete snapshot.
	Folder string `json:"folder,omitempty"`
	Error  string `json:"error,omitempty"`
}

// Server makes snapshots of a running server.
type Server struct {
	// Folder is the data directory.
	Folder string
	// Flush writes what is only in memory to the files of the data directory.
	Flush func() error
	// Archive writes a copy of the archive, as of one moment, alone in a folder; Size is
	// the archive's size.
	Archive func(ctx context.Context) (path string, err error)
	Size    func() (int64, error)

	one sync.Mutex // one snapshot at a time
}

// Listen opens the socket.
func (s *Server) Listen() (net.Listener, error) {
	path := filepath.Join(s.Folder, SocketFile)
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, wrap("listen for backups on", path, err)
	}
	listener, err := net.Listen("unix", path)
	if err == nil {
		err = os.Chmod(path, 0o600)
	}
	return listener, wrap("listen for backups on", path, err)
}

// Serve answers clients until the context ends.
func (s *Server) Serve(ctx context.Context, listener net.Listener) {
	defer context.AfterFunc(ctx, func() { listener.Close() })()
	var clients sync.WaitGroup
	defer clients.Wait()
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		clients.Go(func() {
			defer conn.Close()
			s.serve(ctx, conn)
		})
	}
}

func (s *Server) serve(ctx context.Context, conn net.Conn) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// The client sends nothing: reading ends when it disconnects.
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_, _ = io.Copy(io.Discard, conn)
		cancel()
	}()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	if !s.one.TryLock() {
		send(conn, message{Error: "another backup is running"})
		return
	}
	defer s.one.Unlock()
	var writing sync.Mutex
	tell := func(m message) {
		writing.Lock()
		defer writing.Unlock()
		send(conn, m)
	}
	folder, err := s.snapshot(ctx, tell)
	if folder != "" {
		defer os.RemoveAll(folder)
	}
	if err != nil {
		tell(message{Error: err.Error()})
		return
	}
	tell(message{Folder: folder})
	<-gone
}

func send(conn net.Conn, m message) {
	_ = json.NewEncoder(conn).Encode(m) // an error: the client is gone
}

// snapshot writes the snapshot and returns its folder, also after an error. The archive
// comes first: what the other files add to it later does no harm, but an archive with
// streams of applications that they do not name would.
func (s *Server) snapshot(ctx context.Context, tell func(message)) (folder string, err error) {
	ended := make(chan struct{})
	defer close(ended)
	if of, err := s.Size(); err == nil {
		go func() {
			ticks := time.NewTicker(time.Second)
			defer ticks.Stop()
			for {
				select {
				case <-ended:
					return
				case <-ticks.C:
					tell(message{Bytes: written(s.Folder), Of: of})
				}
			}
		}()
	}
	path, err := s.Archive(ctx)
	if err != nil {
		return "", err
	}
	folder = filepath.Dir(path)
	if err := s.Flush(); err != nil {
		return folder, err
	}
	if path != filepath.Join(folder, ArchiveFile) {
		if err := os.Rename(path, filepath.Join(folder, ArchiveFile)); err != nil {
			return folder, err
		}
	}
	own := filepath.Join(s.Folder, ArchiveFile)
	names, err := filesOf(s.Folder, func(path string) bool { return ofArchive(own, path) || path == folder })
	for _, name := range names {
		if err == nil {
			_, err = copyFile(filepath.Join(s.Folder, name), filepath.Join(folder, name), func(int64) {})
		}
		if errors.Is(err, fs.ErrNotExist) {
			err = nil // removed meanwhile
		}
	}
	return folder, err
}

// written is how much of the archive's copy is on disk.
func written(folder string) (sum int64) {
	copies, _ := filepath.Glob(filepath.Join(folder, "*.backup", "*"))
	for _, path := range copies {
		if info, err := os.Stat(path); err == nil {
			sum += info.Size()
		}
	}
	return sum
}
