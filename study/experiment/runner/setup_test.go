package runner

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pillion.dev/study/experiment"
)

// shared is an experiment whose runs read a file that its setup has made.
const shared = `experiment: shared
seed: 8
factors: {mode: [none]}
setup: {start: "echo start {seed} $PILLION_EXPERIMENT >> LOG; echo '{{\"rate\": 3}}' > {scratch}/data; TAIL", stop: "cat {scratch}/data; echo stop >> LOG"}
run: {command: "BEFORE cat {scratch}/data", settle: 0s, attempts: 1}
measures: {rate: {field: rate}}
stop: {blocks: 3}
`

// sharing returns the options of the experiment and the file in which its setup leaves lines.
func sharing(t *testing.T, tail, before string) (o Options, log string) {
	t.Helper()
	log = filepath.Join(t.TempDir(), "log")
	o, _ = options(t, strings.NewReplacer("LOG", log, "TAIL", tail, "BEFORE", before).Replace(shared))
	return o, log
}

// expectUndone checks how often the setup was made and undone, and that no file is left.
func expectUndone(t *testing.T, o Options, log, want string) {
	t.Helper()
	if text, err := os.ReadFile(log); err != nil || string(text) != want {
		t.Errorf("setup: %q, %v, want %q", text, err, want)
	}
	if _, err := os.Stat(filepath.Join(o.Folder, scratchFolder)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder of the setup is left: %v", err)
	}
}

const once = "start 8 shared\nstop\n"

func TestSetup(t *testing.T) {
	o, log := sharing(t, "true", "")
	// Files of a runner that was killed do not stay.
	old := filepath.Join(o.Folder, scratchFolder, "old")
	if err := os.MkdirAll(old, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	rows := rowsOf(t, o.Folder)
	if len(rows) != 3 || rows[2].Measures["rate"] != 3 {
		t.Errorf("rows are %+v", rows)
	}
	expectUndone(t, o, log, once)
	o.Resume = true
	if err := Run(t.Context(), o); err != nil {
		t.Error(err)
	}
	expectUndone(t, o, log, once) // what is finished needs none
}

func TestSetupFails(t *testing.T) {
	o, log := sharing(t, "echo no space >&2; exit 3", "")
	if err := Run(t.Context(), o); err == nil || !strings.HasPrefix(err.Error(), "set up: run ") || !strings.HasSuffix(err.Error(), "exit status 3: no space") {
		t.Errorf("error is %v", err)
	}
	expectUndone(t, o, log, once)
	if experiment.HasResults(o.Folder) {
		t.Error("there are results")
	}
	o, _ = sharing(t, "sleep 60", "")
	o.Spec.Setup.Timeout = 50e6
	if err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "took longer than 50ms") {
		t.Errorf("error is %v", err)
	}
}

// TestSetupInterrupted: after an interrupt of a run the setup is undone, and resume makes it again.
func TestSetupInterrupted(t *testing.T) {
	mark := filepath.Join(t.TempDir(), "mark")
	o, log := sharing(t, "true", "test {block} = 1 && test ! -e "+mark+" && touch "+mark+" && sleep 1000;")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- Run(ctx, o) }()
	eventually(t, func() bool { _, err := os.Stat(mark); return err == nil })
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v", err)
	}
	expectUndone(t, o, log, once)
	o.Resume = true
	if err := Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if rows := rowsOf(t, o.Folder); len(rows) != 3 {
		t.Errorf("%d rows", len(rows))
	}
	expectUndone(t, o, log, once+once)
}
