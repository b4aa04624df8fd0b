// Package calls lets a workload's test check that experiments call it with arguments that it has.
package calls

import (
	"flag"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"pillion.dev/study/bench/result"
	"pillion.dev/study/experiment"
)

// Check parses the command lines by which the cells of the experiments call a program, with long and with short
// runs. It reads the files that match the patterns and whose command begins with the path of the program.
func Check(t *testing.T, program string, commands map[string]result.Command, patterns ...string) {
	t.Helper()
	Parse(t, program, func(words []string) error { return parse(commands, words) }, patterns...)
}

// Parse is Check of a program without subcommands, which reads its arguments by itself. It returns
// the number of calls.
func Parse(t *testing.T, program string, read func(words []string) error, patterns ...string) (calls int) {
	t.Helper()
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
			for _, line := range lines(t, program, s) {
				for _, quick := range []string{"", "QUICK=1; "} {
					words, err := split(quick, line)
					if err == nil {
						err = read(words)
					}
					if err != nil {
						t.Errorf("%s: %s%s: %v", file, quick, line, err)
					}
					calls++
				}
			}
		}
	}
	if calls == 0 {
		t.Errorf("no experiment in %v calls %s", patterns, program)
	}
	return calls
}

// lines are the calls of the program in the experiment, without its name: the calls of all cells, and the calls in
// the setup, which are joined by &&.
func lines(t *testing.T, program string, s *experiment.Spec) (all []string) {
	t.Helper()
	for _, c := range s.Cells() {
		command, err := s.Values(c, experiment.Turn{}).Replace(s.Run.Command)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, strings.TrimPrefix(command, program))
	}
	if s.Setup == nil {
		return all
	}
	start, err := s.SetupValues().Replace(s.Setup.Start)
	if err != nil {
		t.Fatal(err)
	}
	for command := range strings.SplitSeq(start, "&&") {
		if line, ok := strings.CutPrefix(strings.TrimSpace(command), program+" "); ok {
			all = append(all, line)
		}
	}
	return all
}

// split returns the words of a command line as the shell reads it after an assignment.
func split(assignment, line string) ([]string, error) {
	output, err := exec.Command("sh", "-c", assignment+`printf '%s\n' `+line).Output()
	return strings.Split(strings.TrimSuffix(string(output), "\n"), "\n"), err
}

func parse(commands map[string]result.Command, words []string) error {
	if commands[words[0]] == nil {
		return fmt.Errorf("no subcommand %s", words[0])
	}
	f := flag.NewFlagSet(words[0], flag.ContinueOnError)
	f.SetOutput(io.Discard)
	commands[words[0]](f)
	if err := f.Parse(words[1:]); err != nil {
		return err
	}
	if f.NArg() > 0 {
		return fmt.Errorf("unexpected arguments %q", f.Args())
	}
	return nil
}
