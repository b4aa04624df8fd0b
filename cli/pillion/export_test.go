package pillion

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// files returns the names in the program's home.
func (p *program) files() []string {
	p.t.Helper()
	entries, err := os.ReadDir(p.home)
	if err != nil {
		p.t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestExportFile(t *testing.T) {
	for _, test := range []struct {
		name, line, want string
		files            []string
		code             int
	}{
		{"whole", "export flows --from -1d -f out.parquet", "time,agent\r\n2026-03-01T12:00:00Z,parquet\r\n", []string{"out.parquet"}, 0},
		{"format over name", "export flows --format arrow -f out.csv", "time,agent\r\n2026-03-01T12:00:00Z,arrow\r\n", []string{"out.csv"}, 0},
		{"broken", "export broken -f out.csv", "", nil, 1},
		{"no folder", "export flows -f nowhere/out.csv", "", nil, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, server := newFake(t)
			p := newProgram(t, server)
			out, stderr, code := p.run(strings.Fields(test.line)...)
			if code != test.code || !slices.Equal(p.files(), test.files) {
				t.Fatalf("exit %d, files %v\n%s%s", code, p.files(), out, stderr)
			}
			if len(test.files) == 0 {
				return
			}
			text, err := os.ReadFile(filepath.Join(p.home, test.files[0]))
			if err != nil || string(text) != test.want {
				t.Fatalf("file %q, %v", text, err)
			}
		})
	}
}

func TestExportInterrupted(t *testing.T) { interrupted(t, "export", "endless", "-f", "out.csv") }

// interrupted runs a command that writes a file until it is interrupted: it says so, and leaves
// nothing behind.
func interrupted(t *testing.T, line ...string) {
	t.Helper()
	f, server := newFake(t)
	p := newProgram(t, server)
	command := p.command(line...)
	var stderr bytes.Buffer
	command.Stderr = &stderr
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	<-f.started
	if err := command.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := command.Wait(); command.ProcessState.ExitCode() != 1 {
		t.Fatalf("exit: %v", err)
	}
	if files := p.files(); len(files) != 0 || stderr.String() != "pillion: interrupted\n" {
		t.Errorf("left behind %v, stderr %q", files, stderr.String())
	}
}

// TestCompletion lets bash load the completion code and complete lines with it.
func TestCompletion(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("no bash on this machine")
	}
	_, server := newFake(t)
	p := newProgram(t, server)
	code, _, _ := p.run("completion", "bash")
	p.write("pillion.bash", code, 0o600)
	for _, test := range []struct{ name, line, want string }{
		{"command", "pillion session s", "show stop"},
		{"agent", "pillion agents show n", "north1"},
		{"agent after options", "pillion --timeout 5s agents show -o json n", "north1"},
		{"second agent", "pillion doctor north1 sou", "south\uFFFD[31m1"},
		{"agent of an option", "pillion session create --from n", "north1"},
		{"session", "pillion session watch ", "web"},
		{"server of the line", "pillion --server 127.0.0.1:1 session watch ", ""},
		{"option", "pillion topology show --d", "--dot"},
		{"option of a default command", "pillion agents --la", "--label"},
		{"value", "pillion -o json token create x --role ", "admin analyst join operator viewer"},
		{"value or nothing", "pillion agents --output ", "csv json table"},
		{"file", "pillion session create pillion.b", "pillion.bash"},
	} {
		t.Run(test.name, func(t *testing.T) {
			script := `source ./pillion.bash; eval "words=($(complete -p pillion))"; for ((i = 0; i < ${#words[@]}; i++)); do
				if [ "${words[i]}" = -C ]; then COMP_LINE="$0" COMP_POINT=${#0} "${words[i+1]}" | sort | xargs; fi; done`
			command := exec.Command(bash, "-c", script, test.line)
			command.Env, command.Dir = p.environment, p.home
			out, err := command.CombinedOutput()
			if err != nil || strings.TrimSpace(string(out)) != test.want {
				t.Fatalf("got %q, %v, want %q", out, err, test.want)
			}
		})
	}
	for _, shell := range []string{"zsh", "fish"} {
		if out, _, code := p.run("completion", shell); code != 0 || !strings.Contains(out, "pillion") {
			t.Errorf("%s: exit %d, %q", shell, code, out)
		}
	}
}
