package clib

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pillion.dev/oml/omsp"
	"pillion.dev/oml/omsp/scaffold"
)

func execute(t *testing.T, name string, words ...string) string {
	t.Helper()
	out, err := exec.Command(name, words...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(words, " "), err, out)
	}
	return string(out)
}

// The example's header is generated from its description.
func TestExampleHeader(t *testing.T) {
	text, err := os.ReadFile("examples/sine.yaml")
	if err != nil {
		t.Fatal(err)
	}
	a, err := scaffold.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile("examples/sine_oml.h"); err != nil || !bytes.Equal(got, a.Header()) {
		t.Errorf("examples/sine_oml.h differs from the output of pillion oml scaffold: %v", err)
	}
}

// The example runs with its configuration, against a server and a file.
func TestExample(t *testing.T) {
	folder := t.TempDir()
	execute(t, "make", "-s", "-C", "examples", "CLIB="+build, "BUILD="+folder)
	c := newCollector(t, true, 10)
	config, err := os.ReadFile("examples/sine.xml")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(folder, "sine.xml")
	if err := os.WriteFile(path, bytes.ReplaceAll(config, []byte("localhost:3003"), []byte(c.address)), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(folder, "sine"), "-n", "3", "-r", "1000", "--oml-config", path)
	cmd.Dir = folder
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Fatalf("%v: %s", err, out)
	}
	c.until("all", func() bool { return len(c.of("sine_wave")) == 96 && len(c.of("sine_turn")) == 3 })
	c.lock.Lock()
	defer c.lock.Unlock()
	if v := c.of("sine_wave")[8].values; string(v[0].Bytes()) != "sine" || v[2].Double() != 1 {
		t.Errorf("a quarter of the wave: %+v", v)
	}
	if h := c.headers[0]; h.Domain != "waves" || h.Sender != "bench-1" || !slices.Contains(c.notes, note{".sine_wave.angle", "unit", "rad"}) {
		t.Errorf("header %+v, notes %v", h, c.notes)
	}
	file, err := os.Open(filepath.Join(folder, "sine.oml"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	r := omsp.NewReader(file, omsp.Limits{})
	h, err := r.Header()
	if err != nil {
		t.Fatal(err)
	}
	want := "1 sine_second label:string value_avg:double value_min:double value_max:double spread_stddev:double spread_variance:double"
	if got := h.Schemas[1].String(); got != want {
		t.Errorf("schema %s, want %s", got, want)
	}
}

// The installed files suffice to build a program, and the library exports only its interface.
func TestInstall(t *testing.T) {
	folder := t.TempDir()
	execute(t, "make", "-s", "BUILD="+build, "install", "DESTDIR="+folder, "PREFIX=/usr")
	lib := folder + "/usr/lib"
	for _, link := range []string{"-L" + lib + " -lpillion", "-L" + lib + " -loml2", lib + "/libpillion.a -pthread -lm"} {
		words := append([]string{"-std=c11", "-D_GNU_SOURCE", "-I" + folder + "/usr/include", "-o", folder + "/sine", "examples/sine.c"}, strings.Fields(link)...)
		execute(t, "gcc", append(words, "-lm", "-Wl,-rpath,"+lib)...)
		execute(t, folder+"/sine", "-n", "1", "-r", "1e6", "--oml-noop")
	}
	if pc, err := os.ReadFile(lib + "/pkgconfig/pillion.pc"); err != nil || !strings.Contains(string(pc), "prefix=/usr\n") {
		t.Errorf("%v: %s", err, pc)
	}
	for _, line := range strings.Split(strings.TrimSpace(execute(t, "nm", "-D", "--defined-only", lib+"/libpillion.so.1")), "\n") {
		if strings.HasSuffix(line, " A LIBPILLION_1") { // the version of all others
			continue
		}
		name := line[strings.LastIndex(line, " ")+1:]
		if !strings.HasPrefix(name, "oml") && !strings.HasPrefix(name, "o_") && !strings.HasPrefix(name, "pillion_") {
			t.Errorf("the library exports %s", name)
		}
	}
	if needed := execute(t, "readelf", "-d", lib+"/libpillion.so.1"); !strings.Contains(needed, "soname: [libpillion.so.1]") {
		t.Errorf("no soname in\n%s", needed)
	}
}
