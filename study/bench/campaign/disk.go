package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// disk is a folder whose file system fails on demand: a FUSE file system that passes
// everything on to a folder of the machine. Programs see it like a disk, whatever
// language they are written in. The campaign itself only uses the folder behind it,
// because a program that waits for its own file system can block.
type disk struct {
	fuse.RawFileSystem
	// Folder is behind the file system, Mount is where programs see it.
	Folder, Mount string
	server        *fuse.Server

	mu     sync.Mutex
	fault  *diskFault
	failed int
	draws  *rand.Rand
}

// diskFault is what fails, and how often.
type diskFault struct {
	errno syscall.Errno
	// writes, syncs: whether operations that write, and those that sync, fail.
	writes, syncs bool
	// share of the operations, 0 to 1.
	share float64
}

var diskFaults = map[string]diskFault{
	"no space":    {errno: syscall.ENOSPC, writes: true, share: 1},
	"io errors":   {errno: syscall.EIO, writes: true, syncs: true, share: 0.3},
	"fsync fails": {errno: syscall.EIO, syncs: true, share: 1},
}

func mountDisk(folder, mount string, seed uint64) (*disk, error) {
	for _, path := range []string{folder, mount} {
		if err := os.MkdirAll(path, 0o700); err != nil {
			return nil, err
		}
	}
	root, err := fs.NewLoopbackRoot(folder)
	if err != nil {
		return nil, err
	}
	d := &disk{Folder: folder, Mount: mount, RawFileSystem: fs.NewNodeFS(root, &fs.Options{}), draws: rand.New(rand.NewPCG(seed, 1))}
	d.server, err = fuse.NewServer(d, mount, &fuse.MountOptions{DirectMountStrict: true, AllowOther: true, FsName: "campaign", MaxWrite: 1 << 20})
	if err != nil {
		return nil, fmt.Errorf("mount a file system (FUSE) on %s: %w; it requires root and /dev/fuse", mount, err)
	}
	go d.server.Serve()
	return d, d.server.WaitMount()
}

func (d *disk) unmount() error {
	if err := d.server.Unmount(); err != nil {
		return syscall.Unmount(d.Mount, syscall.MNT_DETACH)
	}
	return nil
}

// fail starts a fault, or ends it with nil, and returns how many operations failed since
// the last call.
func (d *disk) fail(fault *diskFault) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := d.failed
	d.fault, d.failed = fault, 0
	return n
}

func (d *disk) status(syncs bool) fuse.Status {
	d.mu.Lock()
	defer d.mu.Unlock()
	f := d.fault
	if f == nil || syncs && !f.syncs || !syncs && !f.writes || d.draws.Float64() >= f.share {
		return fuse.OK
	}
	d.failed++
	return fuse.Status(f.errno)
}

// The operations that a full or broken disk refuses.

func (d *disk) Write(cancel <-chan struct{}, in *fuse.WriteIn, data []byte) (uint32, fuse.Status) {
	if s := d.status(false); !s.Ok() {
		return 0, s
	}
	return d.RawFileSystem.Write(cancel, in, data)
}

func (d *disk) Writev(cancel <-chan struct{}, in *fuse.WriteIn, data [][]byte) (uint32, fuse.Status) {
	if s := d.status(false); !s.Ok() {
		return 0, s
	}
	return d.RawFileSystem.Writev(cancel, in, data)
}

func (d *disk) Fallocate(cancel <-chan struct{}, in *fuse.FallocateIn) fuse.Status {
	if s := d.status(false); !s.Ok() {
		return s
	}
	return d.RawFileSystem.Fallocate(cancel, in)
}

func (d *disk) Create(cancel <-chan struct{}, in *fuse.CreateIn, name string, out *fuse.CreateOut) fuse.Status {
	if s := d.status(false); !s.Ok() {
		return s
	}
	return d.RawFileSystem.Create(cancel, in, name, out)
}

func (d *disk) Mkdir(cancel <-chan struct{}, in *fuse.MkdirIn, name string, out *fuse.EntryOut) fuse.Status {
	if s := d.status(false); !s.Ok() {
		return s
	}
	return d.RawFileSystem.Mkdir(cancel, in, name, out)
}

func (d *disk) Rename(cancel <-chan struct{}, in *fuse.RenameIn, from, to string) fuse.Status {
	if s := d.status(false); !s.Ok() {
		return s
	}
	return d.RawFileSystem.Rename(cancel, in, from, to)
}

func (d *disk) Fsync(cancel <-chan struct{}, in *fuse.FsyncIn) fuse.Status {
	if s := d.status(true); !s.Ok() {
		return s
	}
	return d.RawFileSystem.Fsync(cancel, in)
}

func (d *disk) FsyncDir(cancel <-chan struct{}, in *fuse.FsyncIn) fuse.Status {
	if s := d.status(true); !s.Ok() {
		return s
	}
	return d.RawFileSystem.FsyncDir(cancel, in)
}

// Init keeps the kernel from writing to the files behind directly, past Write: without a
// server, the layer below cannot offer it to.
func (d *disk) Init(*fuse.Server) {}
