package outfile

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

var errFull = errors.New("no space left")

// fill writes a text, then fails if asked to.
func fill(text string, failed error) func(*os.File) error {
	return func(file *os.File) error {
		_, err := io.WriteString(file, text)
		return errors.Join(err, failed)
	}
}

// check fails unless a file has this text and mode, and its folder these names.
func check(t *testing.T, path, text string, mode fs.FileMode, names ...string) {
	t.Helper()
	got, err := os.ReadFile(path)
	if err != nil || string(got) != text {
		t.Errorf("%s: %q, %v; want %q", path, got, err, text)
	}
	if info, err := os.Lstat(path); err != nil || info.Mode() != mode {
		t.Errorf("%s: mode %v, %v; want %v", path, info.Mode(), err, mode)
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	var has []string
	for _, e := range entries {
		has = append(has, e.Name())
	}
	if want := strings.Join(names, " "); err != nil || strings.Join(has, " ") != want {
		t.Errorf("the folder has %v, %v; want %s", has, err, want)
	}
}

func TestReplace(t *testing.T) {
	old := func(t *testing.T, path string, mode fs.FileMode) {
		t.Helper()
		if err := errors.Join(os.WriteFile(path, []byte("old"), 0o600), os.Chmod(path, mode)); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		name    string
		prepare func(t *testing.T, path string)
		mode    fs.FileMode // asked for
		failed  error
		text    string
		got     fs.FileMode
	}{
		{name: "new", mode: 0o640, text: "new", got: 0o640},
		{name: "keeps mode", prepare: func(t *testing.T, path string) { old(t, path, 0o604) }, mode: 0o640, text: "new", got: 0o604},
		{name: "secret", prepare: func(t *testing.T, path string) { old(t, path, 0o644) }, mode: 0o600, text: "new", got: 0o600},
		{name: "fails", prepare: func(t *testing.T, path string) { old(t, path, 0o644) }, mode: 0o640, failed: errFull, text: "old", got: 0o644},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "out")
			if test.prepare != nil {
				test.prepare(t, path)
			}
			if err := Path(path).Replace(t.Context(), test.mode, fill("new", test.failed)); !errors.Is(err, test.failed) {
				t.Fatal(err)
			}
			check(t, path, test.text, test.got, "out")
		})
	}
}

func TestReplaceFailsWithoutAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out")
	if err := Path(path).Replace(t.Context(), 0o600, fill("new", errFull)); !errors.Is(err, errFull) {
		t.Fatal(err)
	}
	if entries, err := os.ReadDir(filepath.Dir(path)); err != nil || len(entries) != 0 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

// TestFull: a file for which there is no room leaves the previous one whole. The limit on the size
// of files stands for a full disk.
func TestFull(t *testing.T) {
	signal.Ignore(unix.SIGXFSZ)
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	const limit = 1 << 20
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: limit, Max: before.Max}); err != nil {
		t.Fatal(err)
	}
	defer unix.Setrlimit(unix.RLIMIT_FSIZE, &before)
	big := strings.Repeat("x", limit+1)
	for name, write := range map[string]func(Path) error{
		"replace": func(p Path) error { return p.Replace(t.Context(), 0o600, fill(big, nil)) },
		"grow": func(p Path) error {
			_, err := p.Grow(0o600, []byte(big))
			return err
		},
		"build": func(p Path) error {
			return p.Build(t.Context(), 0o600, func(name string) error { return os.WriteFile(name, []byte(big), 0o600) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "out")
			if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := write(Path(path)); !errors.Is(err, unix.EFBIG) {
				t.Fatal(err)
			}
			check(t, path, "old", 0o600, "out")
		})
	}
	if err := Path("/dev/full").Replace(t.Context(), 0o600, fill("new", nil)); !errors.Is(err, unix.ENOSPC) {
		t.Error(err)
	}
}

func TestReplaceInterrupted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out")
	if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	err := Path(path).Replace(ctx, 0o600, func(file *os.File) error {
		cancel()
		return fill("new", nil)(file)
	})
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	check(t, path, "old", 0o600, "out")
}

func TestReplaceOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root owns files of others")
	}
	path := filepath.Join(t.TempDir(), "out")
	if err := errors.Join(os.WriteFile(path, []byte("old"), 0o600), os.Chown(path, 1234, 4321)); err != nil {
		t.Fatal(err)
	}
	if err := Path(path).Replace(t.Context(), 0o600, fill("new", nil)); err != nil {
		t.Fatal(err)
	}
	var stat unix.Stat_t
	if err := unix.Stat(path, &stat); err != nil || stat.Uid != 1234 || stat.Gid != 4321 {
		t.Errorf("owner %d:%d, %v", stat.Uid, stat.Gid, err)
	}
}

func TestReplaceLink(t *testing.T) {
	for name, test := range map[string]struct {
		target string // relative to the link's folder
		exists bool
	}{
		"relative":     {"other/target", true},
		"dangling":     {"other/target", false},
		"over another": {"second", true},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			target, link := filepath.Join(folder, "other", "target"), filepath.Join(folder, "link")
			err := errors.Join(os.Mkdir(filepath.Dir(target), 0o700), os.Symlink(test.target, link))
			if test.target == "second" {
				err = errors.Join(err, os.Symlink(target, filepath.Join(folder, "second")))
			}
			if test.exists {
				err = errors.Join(err, os.WriteFile(target, []byte("old"), 0o640))
			}
			if err = errors.Join(err, Path(link).Replace(t.Context(), 0o640, fill("new", nil))); err != nil {
				t.Fatal(err)
			}
			check(t, target, "new", 0o640, "target")
			if to, err := os.Readlink(link); err != nil || to != test.target {
				t.Errorf("the link points to %q, %v", to, err)
			}
		})
	}
}

// TestInPlace: what is no regular file is written and stays what it is.
func TestInPlace(t *testing.T) {
	for name, open := range map[string]func(t *testing.T, path string) (Path, func() string){
		"FIFO": func(t *testing.T, path string) (Path, func() string) {
			if err := unix.Mkfifo(path, 0o600); err != nil {
				t.Fatal(err)
			}
			return Path(path), reader(t, path)
		},
		"link to FIFO": func(t *testing.T, path string) (Path, func() string) {
			if err := errors.Join(unix.Mkfifo(path, 0o600), os.Symlink(path, path+".link")); err != nil {
				t.Fatal(err)
			}
			return Path(path + ".link"), reader(t, path)
		},
		"socket":      func(t *testing.T, path string) (Path, func() string) { return Path(path), listen(t, path) },
		"unix:socket": func(t *testing.T, path string) (Path, func() string) { return Path("unix:" + path), listen(t, path) },
		"descriptor": func(t *testing.T, path string) (Path, func() string) {
			file, err := os.Create(path)
			if err != nil {
				t.Fatal(err)
			}
			return Path("/proc/self/fd/" + strconv.Itoa(int(file.Fd()))), func() string {
				defer file.Close()
				text, _ := os.ReadFile(path)
				return string(text)
			}
		},
	} {
		for kind, write := range map[string]func(Path) error{
			"replace": func(p Path) error { return p.Replace(t.Context(), 0o600, fill("new", nil)) },
			"grow": func(p Path) error {
				file, err := p.Grow(0o600, []byte("new"))
				if err != nil {
					return err
				}
				return file.Close()
			},
			"build": func(p Path) error {
				return p.Build(t.Context(), 0o600, func(name string) error { return os.WriteFile(name, []byte("new"), 0o600) })
			},
		} {
			t.Run(name+" "+kind, func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "out")
				to, read := open(t, path)
				before, err := os.Lstat(path)
				if err != nil {
					t.Fatal(err)
				}
				if err := write(to); err != nil {
					t.Fatal(err)
				}
				if got := read(); got != "new" {
					t.Errorf("read %q", got)
				}
				if after, err := os.Lstat(path); err != nil || !os.SameFile(before, after) {
					t.Errorf("it was replaced: %v", err)
				}
			})
		}
	}
}

// reader reads a FIFO to its end.
func reader(t *testing.T, path string) func() string {
	t.Helper()
	read := make(chan string, 1)
	go func() {
		text, _ := os.ReadFile(path)
		read <- string(text)
	}()
	return func() string { return <-read }
}

// listen reads the first connection of a socket to its end.
func listen(t *testing.T, path string) func() string {
	t.Helper()
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	read := make(chan string, 1)
	go func() {
		c, err := listener.Accept()
		if err != nil {
			read <- err.Error()
			return
		}
		defer c.Close()
		text, _ := io.ReadAll(c)
		read <- string(text)
	}()
	return func() string { return <-read }
}

func TestRefusals(t *testing.T) {
	folder := t.TempDir()
	loop := filepath.Join(folder, "loop")
	if err := os.Symlink(loop, loop); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		path Path
		want string
	}{
		"empty":       {"", "no file name"},
		"folder":      {Path(folder), "is a directory"},
		"no folder":   {Path(folder + "/none/out"), "no such file or directory"},
		"loop":        {Path(loop), "too many levels of symbolic links"},
		"no reader":   {Path("unix:" + folder + "/none"), "connect to socket: no such file or directory"},
		"sysfs":       {"/sys/pillion", "create a file in /sys: "},
		"no socket":   {"unix:", "no file name"},
		"descriptor?": {"/proc/self/fd/99999", "bad file descriptor"},
	} {
		t.Run(name, func(t *testing.T) {
			err := test.path.Replace(t.Context(), 0o600, fill("new", nil))
			if err == nil || !strings.HasPrefix(err.Error(), string(test.path)+": ") || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}
