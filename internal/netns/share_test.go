package netns_test

import (
	"os"
	"os/exec"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"pillion.dev/internal/netns"
	"pillion.dev/internal/test/namespace"
)

// ip mounts /run/netns when it first adds a namespace; those that exist can be deleted after it.
func TestDeleteAfterIP(t *testing.T) {
	namespace.NeedRoot(t)
	const alone = "PILLION_TEST_ALONE"
	if os.Getenv(alone) == "" { // again, where /run is empty and mounts end with the process
		command := exec.Command(os.Args[0], "-test.run=^TestDeleteAfterIP$", "-test.v")
		command.Env = append(os.Environ(), alone+"=1")
		command.SysProcAttr = &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWNS}
		if output, err := command.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, output)
		}
		return
	}
	if err := unix.Mount("none", "/run", "tmpfs", 0, ""); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"pt-first", "pt-second"} {
		if err := netns.Create(name); err != nil {
			t.Fatal(err)
		}
		if output, err := exec.Command("ip", "netns", "add", name+"-ip").CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, output)
		}
		if err := netns.Delete(name); err != nil || netns.Exists(name) {
			t.Errorf("delete after ip: %v; exists: %t", err, netns.Exists(name))
		}
	}
	for _, name := range []string{"pt-first-ip", "pt-second-ip"} {
		if err := netns.Do(name, func() error { return nil }); err != nil {
			t.Error(err)
		}
		if err := netns.Delete(name); err != nil {
			t.Error(err)
		}
	}
}
