package netns_test

import (
	"errors"
	"net"
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"pillion.dev/internal/netns"
	"pillion.dev/internal/test/namespace"
)

func TestDoEntersAndReturns(t *testing.T) {
	name := namespace.New(t)
	before, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	var inside string
	err = netns.Do(name, func() error {
		var err error
		inside, err = os.Readlink("/proc/thread-self/ns/net")
		if err != nil {
			return err
		}
		interfaces, err := net.Interfaces()
		if err == nil && (len(interfaces) != 1 || interfaces[0].Flags&net.FlagUp == 0) {
			t.Errorf("got interfaces %v, want lo alone, up", interfaces)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if inside == before {
		t.Errorf("function ran in %s, the namespace of the caller", inside)
	}
	checkThreads(t, before)
}

// In the caller's own namespace the thread does not change: only entering requires a privilege.
func TestDoInTheOwnNamespace(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	own, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	before, want := unix.Gettid(), errors.New("mine")
	err = netns.DoIn(own, func() error {
		if unix.Gettid() != before {
			t.Error("function ran on another thread")
		}
		return want
	})
	if !errors.Is(err, want) {
		t.Errorf("error %v", err)
	}
}

func TestDoReturnsTheFunctionsError(t *testing.T) {
	name := namespace.New(t)
	want := errors.New("cause")
	if err := netns.Do(name, func() error { return want }); !errors.Is(err, want) {
		t.Errorf("got %v, want %v", err, want)
	}
}

func TestDoWithGoexit(t *testing.T) {
	name := namespace.New(t)
	if err := netns.Do(name, func() error { runtime.Goexit(); return nil }); err == nil {
		t.Error("no error although the function did not return")
	}
}

func TestDoNamesAMissingNamespace(t *testing.T) {
	if err := netns.Do("pt-none", func() error { return nil }); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want not exist", err)
	}
}

func TestDeleteIgnoresAbsence(t *testing.T) {
	namespace.NeedRoot(t)
	if err := netns.Delete("pt-none"); err != nil {
		t.Error(err)
	}
}

// checkThreads fails if any thread of this process is outside its namespace.
func checkThreads(t *testing.T, want string) {
	t.Helper()
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	for _, thread := range threads {
		got, err := os.Readlink("/proc/self/task/" + thread.Name() + "/ns/net")
		if err == nil && got != want {
			t.Errorf("thread %s is in %s, want %s", thread.Name(), got, want)
		}
	}
}

func TestDeleteStale(t *testing.T) {
	namespace.NeedRoot(t)
	const prefix = "pt-stale-"
	// No process has the largest pid.
	stale, live := prefix+"4194305-a", prefix+"1-a"
	for _, name := range []string{stale, live} {
		if err := netns.Create(name); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := netns.Delete(name); err != nil {
				t.Error(err)
			}
		})
	}
	if err := netns.DeleteStale(prefix); err != nil {
		t.Fatal(err)
	}
	if netns.Exists(stale) || !netns.Exists(live) {
		t.Errorf("stale exists: %t, live exists: %t", netns.Exists(stale), netns.Exists(live))
	}
}
