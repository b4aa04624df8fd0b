//go:build long

package machine

import (
	"bytes"
	"debug/elf"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// kernel is an unpacked package.
type kernel struct {
	image string
	// modules: name to file.
	modules map[string]string
}

// unpackKernel unpacks the newest kernel of a version and an architecture in the cache.
func unpackKernel(t *testing.T, version, architecture string) kernel {
	t.Helper()
	target := t.TempDir()
	unpack(t, target, "linux-image-"+version+".*", architecture)
	images, err := filepath.Glob(filepath.Join(target, "boot", "vmlinuz-*"))
	if err != nil || len(images) != 1 {
		t.Fatalf("unpack the kernel for %s: %d images, want 1 (%v)", architecture, len(images), err)
	}
	k := kernel{image: images[0], modules: map[string]string{}}
	err = filepath.WalkDir(target, func(path string, entry fs.DirEntry, err error) error {
		name, ok := strings.CutSuffix(strings.TrimSuffix(filepath.Base(path), ".xz"), ".ko") // 6.1's are not packed
		if ok && err == nil && !entry.IsDir() {
			k.modules[strings.ReplaceAll(name, "-", "_")] = path
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// module is one that the guest has to load.
type module struct {
	name string
	code []byte
}

// choose unpacks the modules and their dependencies, in the order of loading.
func (k kernel) choose(t *testing.T, names ...string) []module {
	t.Helper()
	var chosen []module
	var add func(name string)
	add = func(name string) {
		if slices.ContainsFunc(chosen, func(m module) bool { return m.name == name }) {
			return
		}
		path, found := k.modules[name]
		if !found {
			t.Fatalf("the kernel has no module %s", name)
		}
		code := call(t, "xz", "-dcf", path)
		needed, err := needs(code)
		if err != nil {
			t.Fatalf("read module %s: %v", name, err)
		}
		for _, need := range needed {
			add(need)
		}
		chosen = append(chosen, module{name, code})
	}
	for _, name := range names {
		add(name)
	}
	return chosen
}

// needs reads the dependencies of a module.
func needs(code []byte) ([]string, error) {
	file, err := elf.NewFile(bytes.NewReader(code))
	if err != nil {
		return nil, err
	}
	section := file.Section(".modinfo")
	if section == nil {
		return nil, fmt.Errorf("no section .modinfo")
	}
	text, err := section.Data()
	if err != nil {
		return nil, err
	}
	for _, line := range strings.Split(string(text), "\x00") {
		if list, ok := strings.CutPrefix(line, "depends="); ok {
			return strings.FieldsFunc(strings.ReplaceAll(list, "-", "_"), func(r rune) bool { return r == ',' }), nil
		}
	}
	return nil, nil
}
