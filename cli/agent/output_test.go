package agent

import (
	"errors"
	"os"
	"strings"
	"testing"

	"pillion.dev/agent/report"
	"pillion.dev/cli/command"
	"pillion.dev/cli/commandtest"
	"pillion.dev/internal/outfile"
	"pillion.dev/measure"
)

// program runs this program without a process of its own.
func program(t *testing.T, words ...string) error {
	t.Helper()
	parser, err := newParser(t.Context())
	if err != nil {
		return err
	}
	line, err := parser.Parse(words)
	if err != nil {
		return err
	}
	return line.Run()
}

// TestOutputFiles: an output file that is no regular file is never replaced.
func TestOutputFiles(t *testing.T) {
	parser, err := newParser(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// What the programs of a router profile measure needs their devices: only the file is tried.
	replace := func(t *testing.T, path string) error {
		return outfile.Path(path).Replace(t.Context(), 0o666, func(file *os.File) error {
			_, err := file.WriteString("report\n")
			return err
		})
	}
	records := func(t *testing.T, path string) error {
		file, err := RecordFlags{Records: outfile.Path(path)}.File().Open("a")
		if err != nil {
			return err
		}
		file.Add(1)
		count, err := file.Close()
		if err == nil && count != (outfile.Count{Written: 1}) {
			t.Errorf("%+v", count)
		}
		return err
	}
	oml := func(t *testing.T, path string) error {
		r, err := report.Open(report.Options{URI: "file:" + path, App: "a", Domain: "d", Sender: "s", Points: []*measure.Schema{&measure.SendPackets}})
		if err != nil {
			return err
		}
		return errors.Join(r.Note("key", "value"), r.Close(t.Context()))
	}
	outputs := commandtest.Outputs{
		Write: map[string]func(*testing.T, string) error{
			"source run --records":  records,
			"destination --records": records,
			"router --records":      records,
			"send --records":        records,
			"receive --records":     records,
			"router --report":       replace,
			"send --save": func(t *testing.T, path string) error {
				return program(t, "send", "train", "--to", "192.0.2.2", "--count", "3", "--save", path)
			},
		},
		Others: strings.Split("run --config,run --token-file,run --policy,policy file,source run --key-file,destination --key-file,send --schedule,"+
			"estimate capacity --token-file,estimate available --token-file,receive --token-file,capture --read", ","),
	}
	for _, name := range []string{"send", "capture", "estimate capacity", "estimate available", "estimate hops", "nmetrics", "run-iperf3"} {
		outputs.Write[name+" --oml"] = oml // file:PATH
	}
	outputs.TestOutputFiles(t, parser)
}

// TestOutputToStdout: a hyphen is standard output.
func TestOutputToStdout(t *testing.T) {
	if !outfile.Stdout.IsStdout() || outfile.Path("/dev/null").IsStdout() {
		t.Error("standard output is not recognized")
	}
	if err := program(t, "send", "train", "--to", "192.0.2.2", "--count", "3", "--save", ""); !errors.Is(err, command.ErrValue) {
		t.Errorf("an empty name: %v", err)
	}
}
