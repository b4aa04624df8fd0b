//go:build long

package machine

import (
	"bufio"
	"debug/elf"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"
)

// disk is the guest's root file system: files by path, without a leading slash.
type disk map[string]content

type content struct {
	mode fs.FileMode
	data []byte
}

func (d disk) put(name string, mode fs.FileMode, data []byte) {
	d[strings.TrimPrefix(name, "/")] = content{mode, data}
}

// copy adds a file of this machine.
func (d disk) copy(t *testing.T, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	d.put(to, 0o755, data)
}

// program adds a program of this machine, with its libraries.
func (d disk) program(t *testing.T, name string) {
	t.Helper()
	found, err := exec.LookPath(name)
	if err != nil {
		t.Fatal(err)
	}
	if found, err = filepath.EvalSymlinks(found); err != nil {
		t.Fatal(err)
	}
	d.copy(t, found, "/usr/sbin/"+name)
	file, err := elf.Open(found)
	if err != nil {
		t.Fatalf("read %s: %v", found, err)
	}
	defer file.Close()
	if file.Section(".interp") == nil {
		return
	}
	for _, word := range strings.Fields(string(call(t, "ldd", found))) {
		if path.IsAbs(word) && d[word[1:]].data == nil {
			d.copy(t, word, word)
		}
	}
}

// write writes the cpio archive ("newc") that the kernel unpacks.
func (d disk) write(name string) (err error) {
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	defer func() {
		if closeErr := file.Close(); err == nil {
			err = closeErr
		}
	}()
	out := bufio.NewWriter(file)
	made := map[string]bool{".": true}
	var inode int
	entry := func(name string, mode uint32, data []byte) {
		inode++
		header := fmt.Sprintf("070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x",
			inode, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name)+1, 0)
		out.WriteString(header + name + "\x00" + padding(len(header)+len(name)+1))
		out.Write(data)
		out.WriteString(padding(len(data)))
	}
	var folder func(name string)
	folder = func(name string) {
		if made[name] {
			return
		}
		folder(path.Dir(name))
		made[name] = true
		entry(name, 0o040755, nil)
	}
	for name, c := range d {
		folder(path.Dir(name))
		entry(name, 0o100000|uint32(c.mode.Perm()), c.data)
	}
	entry("TRAILER!!!", 0, nil)
	return out.Flush()
}

// padding pads to a multiple of four bytes.
func padding(length int) string { return "\x00\x00\x00"[:-length&3] }
