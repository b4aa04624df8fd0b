package hook

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// runtimeFolder holds a lock, and a socket, for each device that has an owner. Only its
// user, root in general, can enter it: nobody else can claim a device.
const runtimeFolder = "/run/pillion/devices"

// ErrRuntime marks a runtime directory that this process cannot use.
var ErrRuntime = errors.New("cannot use the runtime directory")

// Owner is the only process of its role on a device, within the network namespace, until it
// is closed or the process ends however it ends. Its listener is where the owner can be
// reached: Address.
type Owner struct {
	lock     *os.File
	listener *net.UnixListener
}

// Own makes the caller the owner. The lock counts, not the file: one that a killed process
// left behind is free.
func Own(role string, device Device) (*Owner, error) {
	fail := func(err error) (*Owner, error) {
		return nil, fmt.Errorf("become %s of device %q: %w", role, device.Name, err)
	}
	path, err := place(role, device)
	if err != nil {
		return fail(err)
	}
	if err := prepare(filepath.Dir(path)); err != nil {
		return fail(fmt.Errorf("%w: %w", ErrRuntime, err))
	}
	lock, err := lockFile(path + ".lock")
	if err != nil {
		return fail(err)
	}
	address := &net.UnixAddr{Net: "unix", Name: path + ".socket"}
	if err = os.Remove(address.Name); errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	var listener *net.UnixListener
	if err == nil {
		listener, err = net.ListenUnix("unix", address)
	}
	if err != nil {
		return fail(errors.Join(err, lock.Close()))
	}
	return &Owner{lock, listener}, nil
}

// Listener is where other processes reach the owner.
func (o *Owner) Listener() *net.UnixListener { return o.listener }

// Close gives the device up. The file goes before the lock, so that nobody can lock a file
// that is about to be removed.
func (o *Owner) Close() error {
	err := o.listener.Close()
	if errors.Is(err, net.ErrClosed) {
		err = nil
	}
	if removed := os.Remove(o.lock.Name()); !errors.Is(removed, fs.ErrNotExist) {
		err = errors.Join(err, removed)
	}
	return errors.Join(err, o.lock.Close())
}

// Address is the socket of the owner.
func Address(role string, device Device) (*net.UnixAddr, error) {
	path, err := place(role, device)
	if err != nil {
		return nil, err
	}
	return &net.UnixAddr{Net: "unix", Name: path + ".socket"}, nil
}

// place is the path of the lock and the socket, without their suffixes: interfaces have
// their numbers within the calling thread's network namespace.
func place(role string, device Device) (string, error) {
	var namespace unix.Stat_t
	if err := unix.Stat("/proc/thread-self/ns/net", &namespace); err != nil {
		return "", fmt.Errorf("identify network namespace: %w", err)
	}
	return filepath.Join(runtimeFolder, fmt.Sprintf("%s-%d-%d", role, namespace.Ino, device.Index)), nil
}

// prepare creates the runtime folder. One that somebody else can write to is refused: they
// could replace a lock that is held.
func prepare(folder string) error {
	if err := os.MkdirAll(filepath.Dir(folder), 0o755); err != nil {
		return err
	}
	if err := os.Mkdir(folder, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	for _, path := range []string{filepath.Dir(folder), folder} {
		var found unix.Stat_t
		if err := unix.Lstat(path, &found); err != nil {
			return err
		}
		if found.Mode&unix.S_IFMT != unix.S_IFDIR || found.Uid != 0 && int(found.Uid) != os.Geteuid() || found.Mode&0o022 != 0 {
			return fmt.Errorf("%s belongs to user %d with mode %#o: others could replace the locks", path, found.Uid, found.Mode&0o7777)
		}
	}
	return nil
}

// lockFile creates and locks a file.
func lockFile(path string) (*os.File, error) {
	for {
		file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrRuntime, err)
		}
		err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = ErrOwned
		}
		if err != nil {
			return nil, errors.Join(err, file.Close())
		}
		held, err := file.Stat()
		if err != nil {
			return nil, errors.Join(err, file.Close())
		}
		if placed, err := os.Lstat(path); err == nil && os.SameFile(held, placed) {
			return file, nil
		}
		file.Close() // its owner has just removed it
	}
}
