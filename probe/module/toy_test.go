package module

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"pillion.dev/internal/test/buildtag"
	"pillion.dev/internal/test/namespace"
)

// TestToyModule adds the module of docs/howto/extending.md to the tree, by the three files that it
// shows and by what is generated from them, and runs the tests of the module there: its own,
// those that compare headers and descriptors, and one that marks and reads packets.
func TestToyModule(t *testing.T) {
	overlay, tree := addToy(t)
	runOverlaid(t, overlay, "./measure/module", "-run", "^TestHopCount$")
	runOverlaid(t, overlay, "./probe/module", buildtag.With("toy"), "-run", "^(TestList|TestHeadersAreDescribed|TestToyPackets)$",
		"-args", "-headers", filepath.Join(tree, "probe/module"))
}

// addToy returns the files of the tree with the module that differ from those without, by
// their paths, and the folder of its C files.
func addToy(t *testing.T) (overlay map[string]string, tree string) {
	t.Helper()
	namespace.NeedRoot(t)
	toy := documentedFiles(t)
	overlay = map[string]string{}
	folder := t.TempDir()
	for name, text := range toy {
		overlay[name] = store(t, folder, name, text)
	}
	tree, made := compile(t, toy)
	for name, file := range made {
		overlay[name] = file
	}
	return overlay, tree
}

// root is that of the repository.
const root = "../.."

var fileBlock = regexp.MustCompile("`([^`\n]+/hop_count[^`\n]*)`:\n\n```(?:c|go)\n((?s:.*?))```\n")

// documentedFiles are the files of the example in docs/howto/extending.md, by their paths.
func documentedFiles(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile(root + "/docs/howto/extending.md")
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, found := range fileBlock.FindAllStringSubmatch(string(text), -1) {
		files[found[1]] = found[2]
	}
	if len(files) != 3 {
		t.Fatalf("docs/howto/extending.md shows %d files of the example, want 3", len(files))
	}
	return files
}

func store(t *testing.T, folder, name, text string) string {
	t.Helper()
	file := filepath.Join(folder, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

// compile makes a tree of the C files with more modules. It returns its folder, and the files
// that are generated in it, by their paths: the list of modules and the objects of both programs.
func compile(t *testing.T, more map[string]string) (folder string, made map[string]string) {
	t.Helper()
	folder = t.TempDir()
	for _, room := range []string{"wire", "probe/bpf", "probe/module", "probe/source", "probe/destination"} {
		copySources(t, folder, room)
	}
	all := headers(t)
	for name, text := range more {
		if file := filepath.Base(name); IsModule(file) {
			h, err := Parse(file, text)
			if err != nil {
				t.Fatal(err)
			}
			store(t, folder, name, text)
			all = append(all, h)
		}
	}
	made = map[string]string{"probe/module/all.h": store(t, folder, "probe/module/all.h", List(all))}
	for _, program := range []string{"source", "destination"} {
		object := "probe/" + program + "/" + program + "_bpfel.o"
		made[object] = compileObject(t, folder, "probe/"+program+"/"+program+".c", object)
	}
	return folder, made
}

func copySources(t *testing.T, folder, room string) {
	t.Helper()
	files, err := fs.Glob(os.DirFS(filepath.Join(root, room)), "*.[ch]")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(filepath.Join(root, room, file))
		if err != nil {
			t.Fatal(err)
		}
		store(t, folder, filepath.Join(room, file), string(text))
	}
}

// compileObject runs the commands that bpf2go runs.
func compileObject(t *testing.T, folder, source, object string) string {
	t.Helper()
	clang, strip := os.Getenv("BPF2GO_CC"), os.Getenv("BPF2GO_STRIP")
	if clang == "" {
		clang, strip = "clang-16", "llvm-strip-16"
	}
	if _, err := exec.LookPath(clang); err != nil {
		t.Fatalf("find the compiler of BPF programs: %v: install clang 16, or set BPF2GO_CC", err)
	}
	to := filepath.Join(folder, object)
	for _, command := range [][]string{
		{clang, "-target", "bpfel", "-O2", "-g", "-Wall", "-Werror", "-mcpu=v3", "-I/usr/include/x86_64-linux-gnu", "-c", filepath.Join(folder, source), "-o", to},
		{strip, "-g", to},
	} {
		if output, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", strings.Join(command, " "), err, output)
		}
	}
	return to
}

// runOverlaid runs tests of a package with other files in the tree, which are named by their
// paths in it.
func runOverlaid(t *testing.T, files map[string]string, tested string, arguments ...string) {
	t.Helper()
	top, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	replaced := map[string]string{}
	for name, file := range files {
		replaced[filepath.Join(top, name)] = file
	}
	text, err := json.Marshal(map[string]any{"Replace": replaced})
	if err != nil {
		t.Fatal(err)
	}
	overlay := store(t, t.TempDir(), "overlay.json", string(text))
	command := exec.CommandContext(t.Context(), "go", append([]string{"test", "-count=1", "-v", tested}, arguments...)...)
	command.Dir = top
	command.Env = append(os.Environ(), "GOFLAGS="+strings.TrimSpace(os.Getenv("GOFLAGS")+" -overlay="+overlay)) // of builds by the tests, too
	output, err := command.CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatalf("run tests in %s: %v", tested, err)
	}
	if err != nil || !strings.Contains(string(output), "--- PASS") {
		t.Errorf("with the files of docs/howto/extending.md, tests of %s failed:\n%s", tested, output)
	}
	for line := range strings.SplitSeq(string(output), "\n") {
		if strings.HasPrefix(line, "--- ") {
			t.Log(tested, line)
		}
	}
}
