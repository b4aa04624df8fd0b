// Package calls lets a workload's test check that experiments call it with arguments that it has.
package calls

import (
	"flag"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"pillion.dev/bench/result"
	"pillion.dev/experiment"
)

// Check parses what each cell of the experiments calls, with long and with short runs. Files are
// those of the patterns whose command begins with the path of the program.
func Check(t *testing.T, program string, commands map[string]result.Command, patterns ...string) {
	t.Helper()
	calls := 0
	for _, pattern := range patterns {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			s, _, err := experiment.Read(file)
			if err != nil {
				t.Error(err)
				continue
			}
			if !strings.HasPrefix(s.Run.Command, program+" ") {
				continue
			}
			for _, c := range s.Cells() {
				command, err := s.Values(c, experiment.Turn{}).Replace(s.Run.Command)
				if err != nil {
					t.Fatal(err)
				}
				for _, quick := range []string{"", "QUICK=1; "} {
					check(t, file, quick, strings.TrimPrefix(command, program), commands)
					calls++
				}
			}
		}
	}
	if calls == 0 {
		t.Errorf("no experiment in %v calls %s", patterns, program)
	}
}

func check(t *testing.T, file, quick, line string, commands map[string]result.Command) {
	t.Helper()
	output, err := exec.Command("sh", "-c", quick+`printf '%s\n' `+line).Output()
	if err != nil {
		t.Fatal(err)
	}
	words := strings.Split(strings.TrimSuffix(string(output), "\n"), "\n")
	if commands[words[0]] == nil {
		t.Errorf("%s: no subcommand %s", file, words[0])
		return
	}
	f := flag.NewFlagSet(words[0], flag.ContinueOnError)
	f.SetOutput(io.Discard)
	commands[words[0]](f)
	if err := f.Parse(words[1:]); err != nil || f.NArg() > 0 {
		t.Errorf("%s: %s: %v, rest %q", file, line, err, f.Args())
	}
}
