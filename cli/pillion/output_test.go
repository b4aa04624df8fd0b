package pillion

import (
	"errors"
	"os"
	"strings"
	"testing"

	"pillion.dev/cli/commandtest"
	"pillion.dev/internal/outfile"
)

// TestOutputFiles: an output file that is no regular file is never replaced.
func TestOutputFiles(t *testing.T) {
	parser, err := newParser(t.Context(), &cli{})
	if err != nil {
		t.Fatal(err)
	}
	_, server := newFake(t)
	p := newProgram(t, server)
	p.write("demo.yaml", experimentText, 0o644)
	p.write("python", "#!/bin/sh\necho '<html>'\n", 0o755)
	p.write("app.yaml", "app: a\npoints: [{name: p, fields: [{name: f, type: double}]}]\n", 0o644)
	p.expect(0, "", "run", "demo.yaml", "--lock", "lock")
	line := func(words ...string) func(*testing.T, string) error {
		return func(_ *testing.T, path string) error {
			if _, said, code := p.run(append(words, path)...); code != 0 {
				return errors.New(said)
			}
			return nil
		}
	}
	commandtest.Outputs{
		Write: map[string]func(*testing.T, string) error{
			"export --file":            line("export", "flows", "-f"),
			"oml scaffold --file":      line("oml", "scaffold", "app.yaml", "-f"),
			"experiment report --file": line("experiment", "report", "demo.yaml", "--python", p.home+"/python", "-f"),
			"--config":                 func(_ *testing.T, path string) error { return writeConfig(path, config{Server: "noc.example"}) },
			// A database needs the rows of a server: TestOMLExport has one.
			"oml export file": func(t *testing.T, path string) error {
				return outfile.Path(path).Build(t.Context(), 0o600, func(name string) error {
					return os.WriteFile(name, []byte("SQLite"), 0o600)
				})
			},
		},
		Others: strings.Split("--token-file,--ca,session create file,session change file,experiment check file,experiment plan --results,experiment plan file,"+
			"experiment run --results,experiment run --agent,experiment run --lock,experiment run file,experiment status --results,experiment status file,"+
			"experiment resume --results,experiment resume --agent,experiment resume --lock,experiment resume file,experiment report --results,"+
			"experiment report file,oml scaffold description", ","),
	}.TestOutputFiles(t, parser)
}
