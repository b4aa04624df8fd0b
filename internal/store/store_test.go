package store

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestKeepWritesWhatDiffers: a file that stays the same is not touched, not even where nothing can be written.
func TestKeepWritesWhatDiffers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ca.crt")
	file := func() os.FileInfo {
		t.Helper()
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return info
	}
	keep := func(text string, mode os.FileMode) os.FileInfo {
		t.Helper()
		if err := Keep(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return file()
	}
	first := keep("a", 0o600)
	if second := keep("a", 0o600); !os.SameFile(first, second) {
		t.Error("the same text was written again")
	}
	if third := keep("b", 0o600); os.SameFile(first, third) {
		t.Error("another text was not written")
	}
	if fourth := keep("b", 0o640); fourth.Mode() != 0o640 {
		t.Errorf("mode %v", fourth.Mode())
	}
}

func TestFullDiskIsNamed(t *testing.T) {
	err := full(&os.PathError{Op: "write", Path: "agents.json", Err: unix.ENOSPC})
	if !errors.Is(err, unix.ENOSPC) || !strings.HasPrefix(err.Error(), "the disk is full: write agents.json") {
		t.Errorf("got %v", err)
	}
	if err := full(os.ErrPermission); err != os.ErrPermission {
		t.Errorf("got %v", err)
	}
}
