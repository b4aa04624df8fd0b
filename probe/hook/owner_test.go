package hook

import (
	"bufio"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"pillion.dev/internal/test/namespace"
	"pillion.dev/internal/test/sealed"
)

// TestMain owns a device in a process that a test starts as such, until it is killed.
func TestMain(m *testing.M) {
	if os.Getenv("PILLION_TEST_OWNER") == "" {
		os.Exit(sealed.Main(m))
	}
	_, err := Own("test", loopback)
	if err != nil {
		os.Stdout.WriteString(err.Error() + "\n")
		os.Exit(1)
	}
	os.Stdout.WriteString("owned\n")
	select {}
}

var loopback = Device{Name: "lo", Index: 1}

// TestDeviceCannotBeTakenByAnyUser: owners used to bind an abstract socket, which any user
// could do before them.
func TestDeviceCannotBeTakenByAnyUser(t *testing.T) {
	namespace.NeedRoot(t)
	before, err := net.Listen("unix", "@pillion/test/1")
	if err != nil {
		t.Fatal(err)
	}
	defer before.Close()
	owner, err := Own("test", loopback)
	if err != nil {
		t.Fatal(err)
	}
	defer owner.Close()
	path, err := place("test", loopback)
	if err != nil {
		t.Fatal(err)
	}
	for _, attempt := range []string{"exec 9<" + path + ".lock", "exec 9>" + runtimeFolder + "/mine", "mv " + runtimeFolder + " /run/pillion/away"} {
		command := exec.Command("/bin/sh", "-c", attempt)
		command.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		if said, err := command.CombinedOutput(); err == nil {
			t.Errorf("user 65534 can do %q: %s", attempt, said)
		}
	}
}

func TestOneOwner(t *testing.T) {
	namespace.NeedRoot(t)
	owner, err := Own("test", loopback)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Own("test", loopback); !errors.Is(err, ErrOwned) {
		t.Errorf("a second owner: %v", err)
	}
	if other, err := Own("other", loopback); err != nil {
		t.Errorf("another role: %v", err)
	} else if err := other.Close(); err != nil {
		t.Error(err)
	}
	if err := owner.Close(); err != nil {
		t.Error(err)
	}
	if left, _ := filepath.Glob(filepath.Join(runtimeFolder, "test-*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestOwnerKilled: the files of a process that was killed do not keep its device.
func TestOwnerKilled(t *testing.T) {
	namespace.NeedRoot(t)
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), "PILLION_TEST_OWNER=1")
	output, err := command.StdoutPipe()
	if err == nil {
		err = command.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	said, _ := bufio.NewReader(output).ReadString('\n')
	if _, err := Own("test", loopback); said != "owned\n" || !errors.Is(err, ErrOwned) {
		t.Errorf("beside an owner that said %q: %v", said, err)
	}
	if err := command.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = command.Wait()
	owner, err := Own("test", loopback)
	if err != nil {
		t.Fatal(err)
	}
	if err := owner.Close(); err != nil {
		t.Error(err)
	}
}

func TestUntrustedRuntimeFolder(t *testing.T) {
	for name, make := range map[string]func(folder string) error{
		"writable by others": func(folder string) error { return os.Chmod(folder, 0o777) },
		"of another user":    func(folder string) error { return os.Chown(folder, 65534, 65534) },
		"a link": func(folder string) error {
			return errors.Join(os.Rename(folder, folder+"-real"), os.Symlink(folder+"-real", folder))
		},
	} {
		t.Run(name, func(t *testing.T) {
			namespace.NeedRoot(t)
			folder := filepath.Join(t.TempDir(), "devices")
			if err := os.Chmod(filepath.Dir(folder), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := prepare(folder); err != nil {
				t.Fatal(err)
			}
			if err := make(folder); err != nil {
				t.Fatal(err)
			}
			if err := prepare(folder); err == nil {
				t.Error("accepted")
			}
		})
	}
}
