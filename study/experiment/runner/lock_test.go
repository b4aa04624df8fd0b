package runner

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// TestLockOfKilled: a lock that outlives its process for a moment keeps no experiment from beginning.
func TestLockOfKilled(t *testing.T) {
	killed := exec.Command("true")
	if err := killed.Run(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "lock")
	hold := func(pid int) *os.File {
		file, err := os.Create(path)
		if err == nil {
			err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX)
		}
		if err == nil {
			_, err = fmt.Fprintf(file, "other, process %d, since 12:00:00\n", pid)
		}
		if err != nil {
			t.Fatal(err)
		}
		return file
	}
	never := func(string, ...any) { t.Error("it waits for an experiment") }
	left := hold(killed.Process.Pid)
	locked := make(chan error, 1)
	go func() {
		release, err := lock(t.Context(), path, "next", false, never)
		if err == nil {
			release()
		}
		locked <- err
	}()
	if err := left.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-locked; err != nil {
		t.Error(err)
	}
	running := hold(os.Getpid())
	defer running.Close()
	if _, err := lock(t.Context(), path, "next", false, never); !errors.Is(err, ErrBusy) {
		t.Errorf("while another runs: %v", err)
	}
}
