package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// ErrBusy: another experiment runs on this machine.
var ErrBusy = errors.New("another experiment runs on this machine")

// LockFile is where experiments of all users of this machine exclude each other.
func LockFile() string {
	for _, folder := range []string{"/run/lock", "/var/lock"} {
		if info, err := os.Stat(folder); err == nil && info.IsDir() && info.Mode().Perm()&0o002 != 0 {
			return filepath.Join(folder, "pillion-experiment")
		}
	}
	return filepath.Join(os.TempDir(), "pillion-experiment.lock")
}

// lock takes the lock of this machine, which ends with the process. With wait, it waits for
// the experiment that holds it.
func lock(ctx context.Context, path, name string, wait bool, say func(string, ...any)) (release func(), err error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o666)
	if errors.Is(err, os.ErrPermission) { // of another user, in a folder with the sticky bit
		file, err = os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW, 0)
	}
	if err != nil {
		return nil, fmt.Errorf("lock this machine: %w", err)
	}
	begun := time.Now()
	for said := false; ; {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			break
		}
		holder, _ := io.ReadAll(io.LimitReader(io.NewSectionReader(file, 0, 200), 200))
		who := strings.TrimSpace(string(holder))
		ends := ended(who) && time.Since(begun) < endTime
		if !errors.Is(err, syscall.EWOULDBLOCK) || !wait && !ends {
			if errors.Is(err, syscall.EWOULDBLOCK) {
				err = fmt.Errorf("%w: %s", ErrBusy, cmp.Or(who, "it has just begun"))
			}
			return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), file.Close())
		}
		if !said && !ends {
			said = true
			say("waiting for another experiment on this machine: %s", cmp.Or(who, "it has just begun"))
		}
		if err := pause(ctx, 200*time.Millisecond); err != nil {
			return nil, errors.Join(err, file.Close())
		}
	}
	// For the message above only: the lock itself is the kernel's.
	if file.Truncate(0) == nil {
		_, _ = file.WriteAt([]byte(fmt.Sprintf("%s, process %d, since %s\n", name, os.Getpid(), time.Now().Format(time.TimeOnly))), 0)
	}
	return func() { _ = file.Close() }, nil
}

// endTime is how long a lock may outlive its process: one that it was starting as it was killed has it until that
// runs a program of its own.
const endTime = 10 * time.Second

// ended reports whether the process that a lock file names has ended.
func ended(holder string) bool {
	_, rest, _ := strings.Cut(holder, ", process ")
	pid, _, _ := strings.Cut(rest, ",")
	_, err := os.Stat(filepath.Join("/proc", pid))
	return pid != "" && errors.Is(err, os.ErrNotExist)
}

// pause waits, unless ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
