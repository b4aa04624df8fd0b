// Package outfile writes the files that users name: exports, reports, schedules, records.
//
// A regular file, or one that does not exist, is written beside its name and gets it when it is
// complete, so that an error or a full disk leaves the previous one whole. Everything else is
// written in place and never replaced: devices, FIFOs, sockets, descriptors such as /dev/stdout. A
// symbolic link stays one: its target is written. Files of the programs themselves, such as those
// of a data directory, are in package store.
package outfile

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"pillion.dev/internal/store"
)

// Path is an output file as a user names it. A hyphen is standard output, unix:PATH a stream
// socket on which another program listens.
type Path string

// Stdout is the path of standard output.
const Stdout Path = "-"

const (
	socketPrefix = "unix:"
	linksMax     = 40 // as in the kernel
	// nameMax leaves room in a name of 255 bytes for what the name of an incomplete file adds.
	nameMax = 200
	// readerEvery is how often the reader of a FIFO is looked for.
	readerEvery = 20 * time.Millisecond
)

// place is what a path stands for after symbolic links.
type place struct {
	path string
	info fs.FileInfo // nil: nothing is there
	// descriptor of this process that the path names, or -1; socket: the path names a socket.
	descriptor int
	socket     bool
}

// resolve follows symbolic links, up to a descriptor of this process.
func (p Path) resolve() (place, error) {
	at := place{path: string(p), descriptor: -1}
	if p == Stdout {
		at.descriptor = int(os.Stdout.Fd())
		return at, nil
	}
	if at.path, at.socket = strings.CutPrefix(at.path, socketPrefix); at.path == "" {
		return at, errors.New("no file name")
	} else if at.socket {
		return at, nil
	}
	descriptors := fmt.Sprintf("/proc/%d/fd", os.Getpid())
	for range linksMax {
		folder, err := filepath.EvalSymlinks(filepath.Dir(at.path))
		if err != nil {
			return at, err
		}
		at.path = filepath.Join(folder, filepath.Base(at.path))
		if n, err := strconv.Atoi(filepath.Base(at.path)); err == nil && folder == descriptors {
			at.descriptor = n
			return at, nil
		}
		info, err := os.Lstat(at.path)
		if errors.Is(err, fs.ErrNotExist) {
			return at, nil
		}
		if err != nil {
			return at, err
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			at.info, at.socket = info, info.Mode()&fs.ModeSocket != 0
			return at, nil
		}
		link, err := os.Readlink(at.path)
		if err != nil {
			return at, err
		}
		if at.path = link; !filepath.IsAbs(link) {
			at.path = filepath.Join(folder, link)
		}
	}
	return at, unix.ELOOP
}

func (at place) isFIFO() bool { return at.info != nil && at.info.Mode()&fs.ModeNamedPipe != 0 }

// isWhole reports whether the file is replaced when it is complete.
func (at place) isWhole() bool {
	return at.descriptor < 0 && !at.socket && (at.info == nil || at.info.Mode().IsRegular())
}

// IsStdout reports whether the path is standard output by any of its names.
func (p Path) IsStdout() bool {
	at, err := p.resolve()
	return err == nil && (at.descriptor == 1 || p == Stdout)
}

// IsRegular reports whether a regular file is there, which would be replaced.
func (p Path) IsRegular() bool {
	at, err := p.resolve()
	return err == nil && at.info != nil && at.isWhole()
}

// File is an output file that is being written, until Commit, or Close, which gives it up.
type File struct {
	*os.File
	path Path
	at   place
	// part is the name of an incomplete file, mode what it was created with.
	part string
	mode fs.FileMode
}

// Create opens a file, which has its name once it is committed. The mode, before the umask, applies
// to a new file; an existing one keeps its mode, except that rights of others are removed if the mode has none for them.
// The context ends the wait for the reader of a FIFO.
func (p Path) Create(ctx context.Context, mode fs.FileMode) (*File, error) {
	f := &File{path: p}
	var err error
	if f.at, err = p.resolve(); err == nil {
		err = f.open(ctx, mode)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p, cause(err))
	}
	return f, nil
}

// cause is an error without the path, which for an incomplete file is not the one that the user named.
func cause(err error) error {
	if path := (*fs.PathError)(nil); errors.As(err, &path) {
		return path.Err
	}
	return err
}

func (f *File) open(ctx context.Context, mode fs.FileMode) (err error) {
	switch {
	case f.at.isWhole():
		return f.createPart(mode)
	case f.at.isFIFO():
		for {
			if f.File, err = f.at.openInPlace(); !errors.Is(err, unix.ENXIO) {
				return err
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("no program reads the FIFO: %w", ctx.Err())
			case <-time.After(readerEvery):
			}
		}
	}
	f.File, err = f.at.openInPlace()
	return err
}

// openInPlace opens what is never replaced. The error of a FIFO that nothing reads is ENXIO.
func (at place) openInPlace() (*os.File, error) {
	switch {
	case at.descriptor >= 0:
		n, err := unix.FcntlInt(uintptr(at.descriptor), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return nil, err
		}
		return os.NewFile(uintptr(n), at.path), nil
	case at.socket:
		return connect(at.path)
	case at.isFIFO():
		return os.OpenFile(at.path, os.O_WRONLY|unix.O_NONBLOCK, 0)
	}
	return os.OpenFile(at.path, os.O_WRONLY|unix.O_NOCTTY, 0)
}

func connect(path string) (*os.File, error) {
	socket, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(unix.Connect(socket, &unix.SockaddrUnix{Name: path}), unix.SetNonblock(socket, true)); err != nil {
		unix.Close(socket)
		return nil, fmt.Errorf("connect to socket: %w", err)
	}
	return os.NewFile(uintptr(socket), path), nil
}

// createPart creates the incomplete file.
func (f *File) createPart(mode fs.FileMode) (err error) {
	if f.at.info != nil { // a folder alone would permit to replace it
		if err := unix.Faccessat(unix.AT_FDCWD, f.at.path, unix.W_OK, unix.AT_EACCESS); err != nil {
			return err
		}
	}
	f.mode = mode
	folder, name := filepath.Split(f.at.path)
	f.part = filepath.Join(folder, "."+name[:min(len(name), nameMax)]+"."+rand.Text()+".part")
	if f.File, err = os.OpenFile(f.part, os.O_RDWR|os.O_CREATE|os.O_EXCL, mode); err != nil {
		f.part = ""
		return fmt.Errorf("create a file in %s: %w", filepath.Clean(folder), cause(err))
	}
	return nil
}

// Commit completes the file.
func (f *File) Commit() error {
	if err := cmp.Or(f.publish(), f.File.Close()); err != nil {
		return fmt.Errorf("%s: %w", f.path, cause(err))
	}
	return nil
}

// publish gives an incomplete file its name, and the mode and owner of the one it replaces.
func (f *File) publish() error {
	if f.part == "" {
		return nil
	}
	if old := f.at.info; old != nil {
		is, err := f.Stat()
		if err != nil {
			return err
		}
		owner, mine := old.Sys().(*syscall.Stat_t), is.Sys().(*syscall.Stat_t)
		if owner.Uid != mine.Uid || owner.Gid != mine.Gid {
			if err := f.Chown(int(owner.Uid), int(owner.Gid)); err != nil {
				return fmt.Errorf("keep the owner of the file: %w", cause(err))
			}
		}
		mode := old.Mode().Perm()
		if f.mode&0o077 == 0 { // a secret, which may have been readable by others so far
			mode &= f.mode
		}
		if err := f.Chmod(mode); err != nil {
			return err
		}
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := os.Rename(f.part, f.at.path); err != nil {
		return err
	}
	f.part = ""
	return store.SyncFolder(filepath.Dir(f.at.path))
}

// Close gives up a file that is not committed: the previous one is left.
func (f *File) Close() error {
	err := f.File.Close()
	if f.part != "" {
		err = os.Remove(f.part)
		f.part = ""
	}
	return err
}

// Grow opens a file that others read while it grows: it has its name at once, with this head.
func (p Path) Grow(mode fs.FileMode, head []byte) (*os.File, error) {
	f, err := p.Create(context.Background(), mode)
	if err != nil {
		return nil, err
	}
	if _, err = f.Write(head); err == nil {
		err = f.publish()
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", p, cause(err))
	}
	return f.File, nil
}

// Replace lets write fill a file; after an error, or once the context has ended, the previous one
// is left.
func (p Path) Replace(ctx context.Context, mode fs.FileMode, write func(*os.File) error) error {
	f, err := p.Create(ctx, mode)
	if err != nil {
		return err
	}
	defer f.Close()
	// A reader that does not read must not hold up an interrupt.
	defer context.AfterFunc(ctx, func() { _ = f.SetWriteDeadline(time.Unix(1, 0)) })()
	if err := write(f.File); err != nil {
		return cmp.Or(ctx.Err(), err)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return f.Commit()
}

// Build is Replace for a writer that needs the name of a regular file: what is written in place is
// built in the folder of temporary files first.
func (p Path) Build(ctx context.Context, mode fs.FileMode, build func(name string) error) error {
	return p.Replace(ctx, mode, func(file *os.File) error {
		if at, err := p.resolve(); err != nil {
			return err
		} else if at.isWhole() {
			return build(file.Name())
		}
		whole, err := os.CreateTemp("", "pillion-*")
		if err != nil {
			return err
		}
		defer func() { whole.Close(); os.Remove(whole.Name()) }()
		if err := build(whole.Name()); err != nil {
			return err
		}
		_, err = io.Copy(file, whole)
		return err
	})
}
