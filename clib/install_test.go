package clib

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestInstalled compiles the example against an installation below DESTDIR, found with
// pkg-config, and links it with the shared and with the static library.
func TestInstalled(t *testing.T) {
	root := t.TempDir()
	execute(t, "make", "-s", "BUILD="+build, "CFLAGS="+strings.Join(flags, " "), "PREFIX=/usr/local", "DESTDIR="+root, "install")
	library := filepath.Join(root, "usr/local/lib")
	pkgConfig := func(options ...string) []string {
		cmd := exec.Command("pkg-config", append(options, "pillion")...)
		cmd.Env = append(os.Environ(), "PKG_CONFIG_PATH="+library+"/pkgconfig", "PKG_CONFIG_SYSROOT_DIR="+root)
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("pkg-config: %v", err)
		}
		return strings.Fields(string(out))
	}
	type way struct {
		name string
		pkg  []string
		link []string
	}
	ways := []way{{"shared", nil, nil}}
	if !slices.ContainsFunc(flags, func(f string) bool { return strings.HasPrefix(f, "-fsanitize") }) { // these do not link statically
		ways = append(ways, way{"static", []string{"--static"}, []string{"-static"}})
	}
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			program := filepath.Join(t.TempDir(), "sine")
			words := slices.Concat([]string{"-std=c11", "-D_GNU_SOURCE", "-o", program, "examples/sine.c"}, flags, way.link,
				pkgConfig(append([]string{"--cflags", "--libs"}, way.pkg...)...), []string{"-lm"})
			execute(t, "gcc", words...)
			needed := importsOf(t, program)
			if shared := slices.Contains(needed, "libpillion.so.1"); shared != (way.name == "shared") {
				t.Errorf("it needs %v", needed)
			}
			cmd := exec.Command(program, "-n", "1", "-r", "1000", "--oml-id", "a", "--oml-domain", "d", "--oml-collect", "file:-")
			cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+library)
			if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "sine_wave") {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}

func importsOf(t *testing.T, path string) []string {
	t.Helper()
	file, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	needed, err := file.ImportedLibraries()
	if err != nil {
		t.Fatal(err)
	}
	return needed
}

var declared = regexp.MustCompile(`(?m)^(?:[a-z_0-9]+_t|int|void|const char|OmlMP) +\*?((?:omlc?|pillion|o)_[a-z_]+)\(`)

// TestExports: the library exports the functions of its headers, with their version, and nothing else, no data either.
func TestExports(t *testing.T) {
	var want []string
	for _, header := range []string{"include/oml2/omlc.h", "include/ocomm/o_log.h"} {
		text, err := os.ReadFile(header)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range declared.FindAllStringSubmatch(string(text), -1) {
			want = append(want, match[1])
		}
	}
	file, err := elf.Open(filepath.Join(build, "libpillion.so"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if names, err := file.DynString(elf.DT_SONAME); err != nil || !slices.Equal(names, []string{"libpillion.so.1"}) {
		t.Errorf("soname %v, %v", names, err)
	}
	symbols, err := file.DynamicSymbols()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range symbols {
		if s.Section == elf.SHN_UNDEF || s.Section == elf.SHN_ABS && s.Name == "LIBPILLION_1" { // the version itself
			continue
		}
		got = append(got, s.Name)
		if s.Version != "LIBPILLION_1" {
			t.Errorf("%s has the version %q", s.Name, s.Version)
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("exports %v,\ndeclared are %v", got, want)
	}
}
