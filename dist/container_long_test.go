//go:build long

package dist

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"pillion.dev/internal/test/hang"
)

// debian is a minimal Debian 12, which .ci/install test brings. Containers mount it read-only.
const debian = "/usr/local/lib/pillion/debian-12"

// boot makes a container of namespaces and a tree, and becomes systemd in it. Its cgroup is
// the root of those that the container sees; everything is gone when its first process is.
const boot = `
set -e
mount -t overlay overlay -o "lowerdir=$LOWER,upperdir=$FOLDER/upper,workdir=$FOLDER/work" "$FOLDER/tree"
cd "$FOLDER/tree"
mount -t proc proc proc
mount -t sysfs sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t tmpfs -o mode=755 tmpfs run
mount -t tmpfs tmpfs tmp
mount -t tmpfs -o mode=755 tmpfs dev
mkdir dev/pts dev/shm dev/net
mount -t devpts -o newinstance,ptmxmode=0666 devpts dev/pts
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
while read -r name major minor; do mknod -m 666 "dev/$name" c "$major" "$minor"; done <<END
null 1 3
zero 1 5
full 1 7
random 1 8
urandom 1 9
tty 5 0
console 1 3
net/tun 10 200
END
mkdir -p .host
pivot_root . .host
umount -l /.host
exec env -i container=pillion-test PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --log-target=null --show-status=no`

// container is a Debian 12 with systemd, in namespaces of its own.
type container struct {
	t      *testing.T
	name   string
	folder string
	init   string // process ID of its systemd
}

// start boots a container. The folder share of the host is copied to /root.
func start(t *testing.T, name, share string) *container {
	t.Helper()
	c := &container{t: t, name: name, folder: t.TempDir()}
	for _, folder := range []string{"tree", "work", "upper/etc", "upper/root"} {
		if err := os.MkdirAll(filepath.Join(c.folder, folder), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	// What an installer of Debian writes.
	for file, text := range map[string]string{"hostname": name + "\n", "hosts": "127.0.0.1 localhost " + name + "\n::1 localhost\n"} {
		if err := os.WriteFile(filepath.Join(c.folder, "upper/etc", file), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.CopyFS(filepath.Join(c.folder, "upper/root"), os.DirFS(share)); err != nil {
		t.Fatal(err)
	}
	group := c.group()
	command := exec.Command("sh", "-ec", `echo $$ >"$GROUP/cgroup.procs"
exec unshare --pid --mount --net --uts --ipc --cgroup --fork --kill-child sh -c "$BOOT"`)
	command.Env = append(os.Environ(), "GROUP="+group, "BOOT="+boot, "LOWER="+debian, "FOLDER="+c.folder)
	var said strings.Builder
	command.Stdout, command.Stderr, command.WaitDelay = &said, &said, time.Second
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// The end of the first process ends all others and removes the mounts.
		if c.init != "" {
			_ = exec.Command("kill", "-9", c.init).Run()
		} else {
			_ = command.Process.Kill()
		}
		_ = command.Wait()
	})
	c.wait("the first process", func() bool {
		children, err := os.ReadFile(fmt.Sprintf("/proc/%[1]d/task/%[1]d/children", command.Process.Pid))
		c.init = strings.TrimSpace(string(children))
		if err != nil {
			t.Fatalf("boot %s: %v: %s", name, err, said.String())
		}
		name, _ := os.ReadFile("/proc/" + c.init + "/comm")
		return strings.TrimSpace(string(name)) == "systemd"
	})
	c.wait("the end of the boot", func() bool {
		state, _ := c.command(context.Background(), "systemctl is-system-running").Output()
		return strings.TrimSpace(string(state)) == "running"
	})
	return c
}

// group makes the cgroup of the container in the hierarchy of version 2.
func (c *container) group() string {
	c.t.Helper()
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		c.t.Fatal(err)
	}
	match := regexp.MustCompile(`(?m)^\S+ (\S+) cgroup2 `).FindSubmatch(mounts)
	if match == nil {
		c.t.Fatal("no cgroup hierarchy of version 2 is mounted")
	}
	group, err := os.MkdirTemp(string(match[1]), "pillion-test-"+c.name+"-")
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() {
		c.wait("the end of the processes in "+group, func() bool {
			var folders []string
			_ = filepath.WalkDir(group, func(path string, entry fs.DirEntry, err error) error {
				if err == nil && entry.IsDir() {
					folders = append([]string{path}, folders...)
				}
				return nil
			})
			for _, folder := range folders { // the innermost ones first
				_ = os.Remove(folder)
			}
			_, err := os.Stat(group)
			return errors.Is(err, fs.ErrNotExist)
		})
	})
	return group
}

func (c *container) wait(what string, ready func() bool) {
	c.t.Helper()
	for end := time.Now().Add(hang.Limit); !ready(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			c.t.Fatalf("%s: wait for %s: a minute has passed", c.name, what)
		}
	}
}

// command is a shell script in the container, as root in /root.
func (c *container) command(ctx context.Context, script string) *exec.Cmd {
	command := exec.CommandContext(ctx, "nsenter", "--target", c.init, "--mount", "--net", "--uts", "--ipc", "--pid", "--cgroup", "--root",
		"env", "-i", "--chdir=/root", "HOME=/root", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C.UTF-8", "DEBIAN_FRONTEND=noninteractive",
		"sh", "-euc", script)
	command.WaitDelay = time.Second
	return command
}

// run returns the output of a script, which must succeed.
func (c *container) run(script string) string {
	c.t.Helper()
	said, err := c.command(c.t.Context(), script).CombinedOutput()
	if err != nil {
		journal, _ := c.command(context.Background(), "journalctl --no-pager -n 40").CombinedOutput()
		c.t.Fatalf("%s: %s: %v\n%s\njournal:\n%s", c.name, script, err, said, journal)
	}
	return strings.TrimSpace(string(said))
}

// delay runs a command that watches a session until it shows a delay.
func (c *container) delay(watch string) string {
	c.t.Helper()
	return c.run("timeout -s INT 60 " + watch + " 2>&1 | tee -a watch.log | grep -m 1 ' p50 ' || { cat watch.log; exit 1; }")
}
