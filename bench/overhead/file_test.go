package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"pillion.dev/experiment"
)

// Every cell of the experiments that call this program is a call that it accepts.
func TestExperimentsCallWithKnownArguments(t *testing.T) {
	calls := 0
	for _, pattern := range []string{"../*.yaml", "../paper/s[12]/*.yaml"} {
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
			if !strings.HasPrefix(s.Run.Command, "bin/overhead ") {
				continue
			}
			for _, c := range s.Cells() {
				command, err := s.Values(c, experiment.Turn{}).Replace(s.Run.Command)
				if err != nil {
					t.Fatal(err)
				}
				arguments, err := shellWords(strings.TrimPrefix(command, "bin/overhead "))
				if err == nil {
					_, _, err = parseFlags(arguments)
				}
				if err != nil {
					t.Errorf("%s: %s: %v", file, command, err)
				}
				calls++
			}
		}
	}
	if calls < 200 {
		t.Errorf("only %d calls in the experiments", calls)
	}
}

// shellWords splits a command line as a shell does.
func shellWords(line string) ([]string, error) {
	output, err := exec.Command("sh", "-c", `printf '%s\n' `+line).Output()
	return strings.Split(strings.TrimSuffix(string(output), "\n"), "\n"), err
}
