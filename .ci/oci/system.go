package main

import (
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// multiarch are the folders of libraries, by processor.
var multiarch = map[string]string{"amd64": "x86_64-linux-gnu", "arm64": "aarch64-linux-gnu"}

// agentSystem: the agent is static and needs no files, but folders of the right owners.
func agentSystem(program string, platform v1.Platform) ([]file, error) {
	needed, _, err := dependencies(program)
	if err != nil {
		return nil, err
	}
	if len(needed) > 0 {
		return nil, fmt.Errorf("check %s: want a static program, but it needs %v", program, needed)
	}
	files := []file{
		{path: "etc/passwd", mode: 0o644, text: passwd + fmt.Sprintf("pillion:x:%d:%[1]d:Pillion agent:/:/sbin/nologin\n", agentUser)},
		{path: "etc/group", mode: 0o644, text: fmt.Sprintf("root:x:0:\npillion:x:%d:\n", agentUser)},
		folder("etc/pillion", 0o755),
		folder("run/pillion", 0o755),
		{path: "var/lib/pillion/", mode: 0o700, owner: agentUser},
	}
	return append(parents(files), files...), nil
}

// serverSystem: the server needs the C and C++ libraries of the system that linked it, and the
// certificates of public authorities for notifications.
func serverSystem(program string, platform v1.Platform) ([]file, error) {
	files := []file{
		{path: "etc/passwd", mode: 0o644, text: passwd + fmt.Sprintf("pillion-server:x:%d:%[1]d:Pillion server:/:/sbin/nologin\n", serverUser)},
		{path: "etc/group", mode: 0o644, text: fmt.Sprintf("root:x:0:\npillion-server:x:%d:\n", serverUser)},
		{path: "etc/nsswitch.conf", mode: 0o644, text: "passwd: files\ngroup: files\nhosts: files dns\n"},
		folder("etc/pillion", 0o755),
		folder("tmp", 0o1777),
		{path: "var/lib/pillion-server/", mode: 0o700, owner: serverUser},
	}
	libraries, err := libraries(program, multiarch[platform.Architecture])
	if err != nil {
		return nil, err
	}
	certificates, err := certificates()
	if err != nil {
		return nil, err
	}
	files = append(append(files, libraries...), certificates)
	for _, name := range []string{"libc6", "libgcc-s1", "libstdc++6", "ca-certificates"} {
		path := "usr/share/doc/" + name + "/copyright"
		// The licence of libstdc++ is in a folder of another name.
		real, err := filepath.EvalSymlinks("/" + path)
		if err != nil {
			return nil, fmt.Errorf("find licence: %w", err)
		}
		files = append(files, file{path: path, mode: 0o644, from: real})
	}
	return append(parents(files), files...), nil
}

// certificates are the package's certificates, without the ones that an administrator has added here.
func certificates() (file, error) {
	found, err := filepath.Glob("/usr/share/ca-certificates/mozilla/*.crt")
	if err != nil || len(found) == 0 {
		return file{}, errors.Join(err, errors.New("find certificates of authorities: install ca-certificates"))
	}
	slices.Sort(found)
	var all strings.Builder
	for _, path := range found {
		text, err := os.ReadFile(path)
		if err != nil {
			return file{}, err
		}
		all.Write(text)
	}
	return file{path: "etc/ssl/certs/ca-certificates.crt", mode: 0o644, text: all.String()}, nil
}

// libraries returns the shared libraries that a program loads, and the dynamic linker.
func libraries(program, folder string) ([]file, error) {
	needed, interpreter, err := dependencies(program)
	if err != nil {
		return nil, err
	}
	if interpreter == "" || folder == "" {
		return nil, fmt.Errorf("find libraries of %s: want a program of this system that loads its libraries", program)
	}
	files := []file{{path: strings.TrimPrefix(interpreter, "/"), mode: 0o755, from: interpreter}}
	seen := map[string]bool{filepath.Base(interpreter): true}
	for len(needed) > 0 {
		name := needed[0]
		needed = needed[1:]
		if seen[name] {
			continue
		}
		seen[name] = true
		path, err := find(name, folder)
		if err != nil {
			return nil, err
		}
		more, _, err := dependencies(path)
		if err != nil {
			return nil, err
		}
		needed = append(needed, more...)
		files = append(files, file{path: "lib/" + folder + "/" + name, mode: 0o644, from: path})
	}
	slices.SortFunc(files, func(a, b file) int { return strings.Compare(a.path, b.path) })
	return files, nil
}

func find(name, folder string) (string, error) {
	for _, place := range []string{"/lib/", "/usr/lib/"} {
		path := place + folder + "/" + name
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			return path, err
		}
	}
	return "", fmt.Errorf("find library %s: it is neither in /lib/%s nor in /usr/lib/%[2]s", name, folder)
}

// dependencies returns the shared libraries that an ELF file names, and its interpreter, the dynamic linker.
func dependencies(path string) (needed []string, interpreter string, err error) {
	program, err := elf.Open(path)
	if err != nil {
		return nil, "", fmt.Errorf("read %s: %w", path, err)
	}
	defer program.Close()
	for _, p := range program.Progs {
		if p.Type != elf.PT_INTERP {
			continue
		}
		name := make([]byte, p.Filesz)
		if _, err := p.ReadAt(name, 0); err != nil {
			return nil, "", fmt.Errorf("read %s: %w", path, err)
		}
		interpreter = strings.TrimRight(string(name), "\x00")
	}
	needed, err = program.ImportedLibraries()
	if err != nil {
		return nil, "", fmt.Errorf("read %s: %w", path, err)
	}
	return needed, interpreter, nil
}
