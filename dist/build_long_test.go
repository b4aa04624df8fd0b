//go:build long

package dist

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestLongBuildAll: the agent is one static file for each processor, and leaves nothing in the
// tree. Where there is an emulator (qemu-user-static), it starts, too.
func TestLongBuildAll(t *testing.T) {
	out := t.TempDir()
	build := exec.Command(".ci/build-all")
	build.Env = append(os.Environ(), "OUT="+out)
	if said, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	if left, err := filepath.Glob("*/*/*_bpfeb.*"); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	for _, row := range []struct {
		name, emulator string
		machine        elf.Machine
		order          elf.Data
	}{
		{"arm64", "aarch64", elf.EM_AARCH64, elf.ELFDATA2LSB}, {"armv7", "arm", elf.EM_ARM, elf.ELFDATA2LSB},
		{"mips", "mips", elf.EM_MIPS, elf.ELFDATA2MSB}, {"mipsle", "mipsel", elf.EM_MIPS, elf.ELFDATA2LSB},
	} {
		t.Run(row.name, func(t *testing.T) {
			path := filepath.Join(out, "linux-"+row.name, "pillion-agent")
			file, err := elf.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			if file.Machine != row.machine || file.Data != row.order {
				t.Errorf("%v, %v", file.Machine, file.Data)
			}
			if libraries, err := file.ImportedLibraries(); len(libraries) > 0 || file.Section(".interp") != nil {
				t.Errorf("not static: %v, %v", libraries, err)
			}
			emulator, err := exec.LookPath("qemu-" + row.emulator + "-static")
			if err != nil {
				return
			}
			for want, words := range map[string][]string{"pillion-agent": {"version"}, "--mechanism": {"send", "--help"}} {
				said, err := exec.Command(emulator, append([]string{path}, words...)...).CombinedOutput()
				if err != nil || !strings.Contains(string(said), want) {
					t.Errorf("%v: %v: %s", words, err, said)
				}
			}
		})
	}
}
