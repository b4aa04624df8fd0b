// Package netns creates, enters and deletes named network namespaces.
//
// Namespaces are named as iproute2 names them (a bind mount in /run/netns), so
// `ip netns exec` and Pillion see the same ones. The package configures nothing
// inside them: that belongs to the lab and to the tests that use it.
package netns

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

const folder = "/run/netns"

// Path is the file that keeps the namespace alive.
func Path(name string) string { return filepath.Join(folder, name) }

// Exists reports whether a namespace of that name exists.
func Exists(name string) bool {
	_, err := os.Lstat(Path(name))
	return err == nil
}

// Do runs f inside the named namespace and returns its error.
//
// f runs on a locked OS thread, which returns to its namespace afterwards; if that
// fails, or if f does not return normally, the thread is terminated. Goroutines that f
// starts are not in the namespace; sockets that f opens remain in it.
func Do(name string, f func() error) error {
	target, err := netns.GetFromPath(Path(name))
	if err != nil {
		return fmt.Errorf("open namespace %s: %w", name, err)
	}
	defer target.Close()
	return doIn(target, name, f)
}

// DoIn is Do in the namespace of an open file. It requires no privilege if the caller
// is in that namespace already.
func DoIn(file *os.File, f func() error) error {
	target := netns.NsHandle(file.Fd())
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	here, err := netns.Get()
	if err != nil {
		return fmt.Errorf("open own namespace: %w", err)
	}
	defer here.Close()
	if here.Equal(target) {
		return f()
	}
	return doIn(target, file.Name(), f)
}

func doIn(target netns.NsHandle, name string, f func() error) error {
	return onThread(func() error {
		if err := netns.Set(target); err != nil {
			return fmt.Errorf("enter namespace %s: %w", name, err)
		}
		return f()
	})
}

// Create creates an empty namespace; the caller stays in its own.
func Create(name string) error {
	if err := share(); err != nil {
		return fmt.Errorf("create namespace %s: %w", name, err)
	}
	return onThread(func() error {
		made, err := netns.NewNamed(name)
		if err != nil {
			return fmt.Errorf("create namespace %s: %w", name, err)
		}
		return made.Close()
	})
}

// share makes the folder of the names a shared mount point, as `ip netns add` does. If ip came
// second, its mount would cover the namespaces that exist, and they could not be deleted.
func share() error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	open, err := os.Open(folder)
	if err != nil {
		return err
	}
	defer open.Close() // and with it the lock, which ip takes too
	if err := unix.Flock(int(open.Fd()), unix.LOCK_EX); err != nil {
		return fmt.Errorf("lock %s: %w", folder, err)
	}
	err = unix.Mount("", folder, "", unix.MS_SHARED|unix.MS_REC, "")
	if !errors.Is(err, unix.EINVAL) { // EINVAL: not a mount point
		return os.NewSyscallError("share "+folder, err)
	}
	if err := unix.Mount(folder, folder, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("mount %s: %w", folder, err)
	}
	return os.NewSyscallError("share "+folder, unix.Mount("", folder, "", unix.MS_SHARED|unix.MS_REC, ""))
}

// Delete removes the name. The kernel removes the namespace with its interfaces
// as soon as no process and no open file uses it. A name that does not exist
// is not an error.
func Delete(name string) error {
	err := netns.DeleteNamed(name)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	// A crash during Create leaves a file without a mount.
	if removeErr := os.Remove(Path(name)); removeErr == nil {
		return nil
	}
	return fmt.Errorf("delete namespace %s: %w", name, err)
}

// DeleteStale deletes the namespaces PREFIX<process ID>-... of processes that no longer
// exist, which could not do so themselves.
func DeleteStale(prefix string) error {
	entries, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list namespaces: %w", err)
	}
	for _, entry := range entries {
		rest, ours := strings.CutPrefix(entry.Name(), prefix)
		pid, _, _ := strings.Cut(rest, "-")
		if _, err := os.Stat("/proc/" + pid); !ours || err == nil && pid != "" {
			continue
		}
		if err := Delete(entry.Name()); err != nil {
			return err
		}
	}
	return nil
}

// onThread runs f on a locked thread and restores the thread's namespace.
func onThread(f func() error) error {
	result := errors.New("function left its thread without returning")
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		home, err := netns.Get()
		if err != nil {
			result = fmt.Errorf("open own namespace: %w", err)
			return
		}
		defer home.Close()
		result = f()
		if netns.Set(home) == nil {
			runtime.UnlockOSThread()
		}
	}()
	<-done
	return result
}

// Inode is the inode number of the calling thread's network namespace, by which the
// kernel's own structures name it.
func Inode() (uint32, error) {
	var s unix.Stat_t
	if err := unix.Stat("/proc/thread-self/ns/net", &s); err != nil {
		return 0, fmt.Errorf("read own network namespace: %w", err)
	}
	return uint32(s.Ino), nil
}

// Cookie identifies the calling thread's network namespace until the next boot: unlike that
// of an inode, the kernel gives its number to no other one.
func Cookie() (uint64, error) {
	socket, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, os.NewSyscallError("socket", err)
	}
	defer unix.Close(socket)
	cookie, err := unix.GetsockoptUint64(socket, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
	if err != nil {
		return 0, fmt.Errorf("read cookie of own network namespace: %w", err)
	}
	return cookie, nil
}
