package commandtest

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"golang.org/x/sys/unix"

	"pillion.dev/internal/outfile"
)

// Outputs says how the options of a program that name files are tried. A key is a command and its
// option or argument, such as "export --file".
type Outputs struct {
	// Write runs the program, or what it calls if it needs a network, so that it writes the file.
	Write map[string]func(t *testing.T, path string) error
	// Others are options whose files are read, or changed in place such as a lock.
	Others []string
}

// namesFile reports whether an option is likely to name a file.
func namesFile(v *kong.Value) bool {
	return v.Target.Type() == reflect.TypeFor[outfile.Path]() || v.Tag.PlaceHolder == "FILE" || v.Tag.PlaceHolder == "URI" || v.Tag.Get("predictor") == "file" ||
		v.Tag.Type == "path" || v.Tag.Type == "existingfile"
}

// TestOutputFiles tries each option of a program that names an output file on a device, a FIFO, a
// symbolic link and a folder in which no file can be created.
func (o Outputs) TestOutputFiles(t *testing.T, parser *kong.Kong) {
	tried := map[string]bool{}
	try := func(name string, v *kong.Value) {
		name = strings.TrimSpace(name)
		if !namesFile(v) {
			return
		}
		tried[name] = true
		write := o.Write[name]
		switch isOutput := v.Target.Type() == reflect.TypeFor[outfile.Path](); {
		case slices.Contains(o.Others, name) && (isOutput || write != nil):
			t.Errorf("%s is said to be no output file, but is an output file", name)
		case slices.Contains(o.Others, name):
		case write == nil:
			t.Errorf("%s: say how it is written, or that it is no output file; an output file is an outfile.Path", name)
		default:
			t.Run(name, func(t *testing.T) { tryOutput(t, write) })
		}
	}
	var visit func(n *kong.Node)
	visit = func(n *kong.Node) {
		path := n.Path()
		if n.Parent == nil {
			path = ""
		}
		path, _, _ = strings.Cut(strings.TrimSpace(strings.TrimPrefix(path, parser.Model.Name)), " <")
		for _, f := range n.Flags {
			try(path+" --"+f.Name, f.Value)
		}
		for _, p := range n.Positional {
			try(path+" "+p.Name, p)
		}
		for _, c := range n.Children {
			visit(c)
		}
	}
	visit(parser.Model.Node)
	for name := range o.Write {
		if !tried[name] {
			t.Errorf("%s names no file", name)
		}
	}
	for _, name := range o.Others {
		if !tried[name] {
			t.Errorf("%s names no file", name)
		}
	}
}

func tryOutput(t *testing.T, write func(t *testing.T, path string) error) {
	t.Run("device", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "null")
		if err := unix.Mknod(path, unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))); err != nil {
			if os.Geteuid() != 0 {
				t.Skip("only root makes devices")
			}
			t.Fatal(err)
		}
		before, err := os.Lstat(path)
		if err := errors.Join(err, write(t, path)); err != nil {
			t.Fatal(err)
		}
		if after, err := os.Lstat(path); err != nil || !os.SameFile(before, after) || after.Mode() != before.Mode() {
			t.Errorf("the device was replaced: %v, %v", after, err)
		}
	})
	t.Run("FIFO", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "fifo")
		if err := unix.Mkfifo(path, 0o600); err != nil {
			t.Fatal(err)
		}
		// Open before it is written, and large enough for it: nothing has to wait.
		reader, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer reader.Close()
		if err := write(t, path); err != nil {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(reader); len(text) == 0 {
			t.Errorf("the reader got nothing: %v", err)
		}
		if info, err := os.Lstat(path); err != nil || info.Mode()&fs.ModeNamedPipe == 0 {
			t.Errorf("the FIFO was replaced: %v", err)
		}
	})
	t.Run("symbolic link", func(t *testing.T) {
		folder := t.TempDir()
		target, link := filepath.Join(folder, "target"), filepath.Join(folder, "link")
		if err := os.Symlink("target", link); err != nil {
			t.Fatal(err)
		}
		if err := write(t, link); err != nil {
			t.Fatal(err)
		}
		if to, err := os.Readlink(link); err != nil || to != "target" {
			t.Errorf("the link points to %q, %v", to, err)
		}
		if info, err := os.Lstat(target); err != nil || !info.Mode().IsRegular() || info.Size() == 0 {
			t.Errorf("the target was not written: %v", err)
		}
	})
	t.Run("read-only folder", func(t *testing.T) {
		// No user can create files here, not even root.
		if err := write(t, "/sys/pillion-out"); err == nil || !strings.Contains(err.Error(), "create a file in /sys: ") {
			t.Errorf("got %v", err)
		}
	})
}
