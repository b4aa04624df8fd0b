//go:build long

package machine

import (
	"bufio"
	"debug/elf"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
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

// copy adds a file.
func (d disk) copy(t *testing.T, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	d.put(to, 0o755, data)
}

// program adds a program below root, which is that of this machine or of another one, with its libraries.
func (d disk) program(t *testing.T, root, name string) {
	t.Helper()
	found := first(t, root, name, "/usr/bin", "/bin", "/usr/sbin", "/sbin") // Debian's /sbin/ip is a link to /bin/ip
	d.copy(t, found, "/usr/sbin/"+name)
	d.libraries(t, root, found)
}

// libraries adds those that a program or a library requires, where its loader looks for them, and the loader.
func (d disk) libraries(t *testing.T, root, name string) {
	t.Helper()
	file, err := elf.Open(name)
	if err != nil {
		t.Fatalf("read %s: %v", name, err)
	}
	defer file.Close()
	if section := file.Section(".interp"); section != nil {
		loader, err := section.Data()
		if err != nil {
			t.Fatalf("read %s: %v", name, err)
		}
		path := unix.ByteSliceToString(loader)
		d.copy(t, first(t, root, filepath.Base(path), filepath.Dir(path)), path)
	}
	required, err := file.ImportedLibraries()
	if err != nil {
		t.Fatalf("read %s: %v", name, err)
	}
	for _, library := range required {
		if d["lib/"+library].data != nil {
			continue
		}
		folder := map[elf.Machine]string{elf.EM_X86_64: "/lib/x86_64-linux-gnu", elf.EM_AARCH64: "/lib/aarch64-linux-gnu"}[file.Machine]
		path := first(t, root, library, folder, "/usr"+folder, "/lib64", "/usr/lib64", "/lib")
		d.copy(t, path, "/lib/"+library)
		d.libraries(t, root, path)
	}
}

// first returns the first file of a name in folders below a root, without symbolic links in the name.
func first(t *testing.T, root, name string, folders ...string) string {
	t.Helper()
	for _, folder := range folders {
		if path, err := filepath.EvalSymlinks(filepath.Join(root, folder, name)); err == nil {
			return path
		}
	}
	t.Fatalf("no %s below %s in %v", name, root, folders)
	return ""
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
