package runner

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"pillion.dev/internal/test/hang"
	"pillion.dev/internal/test/sealed"
	"pillion.dev/study/experiment"
)

// TestMain carries out an experiment in a process that a test starts as such, to kill it.
func TestMain(m *testing.M) {
	if path := os.Getenv("PILLION_TEST_EXPERIMENT"); path != "" {
		if err := carryOut(context.Background(), path, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(sealed.Main(m))
}

// carryOut runs or resumes the experiment of a file, with results beside it.
func carryOut(ctx context.Context, path string, log *os.File) error {
	s, text, err := experiment.Read(path)
	if err != nil {
		return err
	}
	folder := filepath.Join(filepath.Dir(path), "results")
	_, err = os.Stat(filepath.Join(folder, experiment.DesignFile))
	return Run(ctx, Options{Spec: s, File: text, Path: path, Folder: folder, Resume: err == nil,
		Lock: filepath.Join(filepath.Dir(path), "lock"), Log: log})
}

// write makes a file of an experiment in a folder of its own.
func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "experiment.yaml")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func options(t *testing.T, text string) (Options, *bytes.Buffer) {
	t.Helper()
	path := write(t, text)
	s, read, err := experiment.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	log := &bytes.Buffer{}
	return Options{Spec: s, File: read, Path: path, Folder: filepath.Join(t.TempDir(), "results"),
		Lock: filepath.Join(t.TempDir(), "lock"), Log: log}, log
}

func rowsOf(t *testing.T, folder string) []experiment.Row {
	t.Helper()
	return journalOf(t, folder)
}

func journalOf(t testing.TB, folder string) []experiment.Row {
	t.Helper()
	rows, torn, err := experiment.ReadJournal(folder)
	if err != nil || torn {
		t.Fatalf("read journal: %v, torn %v", err, torn)
	}
	return rows
}

const local = `experiment: local
seed: 5
factors:
  mode: [none, slow]
  size: {small: {n: 10}, large: {n: 20}}
treatments:
  mode:
    slow:
      start: "echo applied >> log"
      stop: "echo removed >> log"
      command: |
        trap "echo '{\"count\": 7}'; exit" INT
        echo works
        while :; do sleep 0.01; done
      ready: works
      expect: "count == 7 && rate > 0"
run:
  command: 'echo "{{\"at\": 1}}"; echo "{{\"rate\": $(({n} + {block} + 1)), \"block\": $PILLION_BLOCK, \"mode\": \"$PILLION_FACTOR_MODE\"}}"'
  settle: 0s
measures: {rate: {field: rate}}
invalid: 'mode != "{mode}" && false'
response: {log_ratio: rate, to: {mode: none}}
design: {null_arm: true}
stop: {blocks: 2}
`

func TestLocalExperiment(t *testing.T) {
	t.Chdir(t.TempDir())
	o, _ := options(t, local)
	if err := Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	rows := rowsOf(t, o.Folder)
	if len(rows) != 12 {
		t.Fatalf("%d rows", len(rows))
	}
	applied := 0
	for _, row := range rows {
		want := map[string]float64{"small": 11, "large": 21}[row.Factors["size"]] + float64(row.Block)
		if !row.Valid || row.Measures["rate"] != want || len(row.Intervals) != 1 || row.Attempt != 1 || row.Clock == nil {
			t.Errorf("row %+v, want rate %v", row, want)
		}
		if row.Factors["mode"] == "slow" {
			applied++
			if row.Counters["count"] != 7.0 {
				t.Errorf("counters are %v", row.Counters)
			}
		}
	}
	log, err := os.ReadFile("log")
	if err != nil || string(log) != strings.Repeat("applied\nremoved\n", applied) || applied != 4 {
		t.Errorf("treatments: %q, %v", log, err)
	}
	if err := Run(t.Context(), o); !errors.Is(err, experiment.ErrExists) {
		t.Errorf("a second time: %v", err)
	}
	o.Resume = true
	if err := Run(t.Context(), o); err != nil || len(rowsOf(t, o.Folder)) != 12 {
		t.Errorf("resuming what is finished: %v", err)
	}
}

func TestInvalidRuns(t *testing.T) {
	for name, c := range map[string]struct{ command, invalid, why string }{
		"condition": {`echo '{{"rate": 1, "got": {attempt}}}'`, "got < 3", "got < 3"},
		"exit code": {`echo '{{"rate": 1}}'; echo broken >&2; test {attempt} = 3`, "false", "the load failed: exit status 1: broken"},
		"no output": {`if [ {attempt} = 3 ]; then echo '{{"rate": 1}}'; fi`, "false", "read output as json: it is empty"},
		"no rate":   {`if [ {attempt} = 3 ]; then echo '{{"rate": 1}}'; else echo '{{}}'; fi`, "false", "measure rate: no field rate"},
		"zero":      {`echo "{{\"rate\": $(( {attempt} / 3 ))}}"`, "false", "measure rate: 0 has no logarithm"},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.NewReplacer("COMMAND", strings.ReplaceAll(c.command, "'", "''"), "INVALID", c.invalid).Replace(`experiment: invalid
factors: {mode: [none]}
run: {command: 'COMMAND', settle: 0s, attempts: 3}
measures: {rate: {field: rate}}
invalid: INVALID
response: {log_ratio: rate, to: {mode: none}}
stop: {blocks: 1}
`)
			o, _ := options(t, text)
			if err := Run(t.Context(), o); err != nil {
				t.Fatal(err)
			}
			rows := rowsOf(t, o.Folder)
			if len(rows) != 3 || rows[0].Valid || rows[1].Valid || !rows[2].Valid || !rows[0].Kept || !strings.HasPrefix(rows[1].Why, c.why) {
				t.Errorf("rows are %+v, want %q", rows, c.why)
			}
			o, _ = options(t, strings.Replace(text, "attempts: 3", "attempts: 2", 1))
			if err := Run(t.Context(), o); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), c.why) {
				t.Errorf("with two attempts: %v", err)
			}
			if rows := rowsOf(t, o.Folder); len(rows) != 2 {
				t.Errorf("%d rows are kept", len(rows))
			}
		})
	}
}

func TestTimeout(t *testing.T) {
	o, _ := options(t, `experiment: late
factors: {mode: [none]}
run: {command: "sleep 60", settle: 0s, attempts: 1, timeout: 50ms}
measures: {rate: {field: rate}}
stop: {blocks: 1}
`)
	if err := Run(t.Context(), o); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "the load took longer than 50ms") {
		t.Errorf("error is %v", err)
	}
}

// TestInterrupt: treatments are undone, nothing stays behind, and resume continues.
func TestInterrupt(t *testing.T) {
	folder := t.TempDir()
	o, _ := options(t, `experiment: interrupted
factors: {mode: [none]}
treatments: {mode: {none: {start: "touch `+folder+`/applied", stop: "rm `+folder+`/applied", command: "sleep 1000"}}}
run: {command: "touch `+folder+`/runs; sleep 1000", settle: 0s}
measures: {rate: {field: rate}}
stop: {blocks: 1}
`)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- Run(ctx, o) }()
	eventually(t, func() bool { _, err := os.Stat(filepath.Join(folder, "runs")); return err == nil })
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v", err)
	}
	if _, err := os.Stat(filepath.Join(folder, "applied")); err == nil {
		t.Error("the treatment was not undone")
	}
	if left, err := os.ReadFile(filepath.Join(o.Folder, leftoverFile)); err == nil {
		t.Errorf("processes are left: %s", left)
	}
	if rows := rowsOf(t, o.Folder); len(rows) != 0 {
		t.Errorf("an interrupted run is in the journal: %+v", rows)
	}
}

func eventually(t *testing.T, condition func() bool) {
	t.Helper()
	for begin := time.Now(); !condition(); {
		if time.Since(begin) > hang.Limit {
			t.Fatal("the condition was not met")
		}
		time.Sleep(time.Millisecond)
	}
}

func TestLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	said := ""
	say := func(format string, values ...any) { said = fmt.Sprintf(format, values...) }
	release, err := lock(t.Context(), path, "first", false, say)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lock(t.Context(), path, "second", false, say); !errors.Is(err, ErrBusy) || !strings.Contains(err.Error(), "first, process") {
		t.Errorf("while it is held: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	got := make(chan error)
	go func() {
		release, err := lock(ctx, path, "third", true, say)
		if err == nil {
			release()
		}
		got <- err
	}()
	release()
	if err := <-got; err != nil {
		t.Error(err)
	}
	cancel()
	if release, err = lock(t.Context(), path, "fourth", false, say); err != nil {
		t.Errorf("after it was released: %v, said %q", err, said)
	} else {
		release()
	}
}

// deterministic is an experiment whose rates follow from the run, so that every way to
// carry it out must have the same result. Its load notes each run that it ends.
const deterministic = `experiment: deterministic
seed: 9
factors: {mode: [none, both], load: [a, b, c]}
run:
  command: 'sleep 0.00$(({seed} % 10)); echo "{{\"rate\": $((100 + {seed} % 50)), \"attempt\": {attempt}}}"'
  settle: 0s
measures: {rate: {field: rate}}
invalid: "rate > 142 && attempt < 3"
response: {log_ratio: rate, to: {mode: none}}
design: {null_arm: true}
stop: {effect: mode, half_width: 5%, pilot: 5, most: MOST}
`

// killed carries out an experiment that is killed again and again, and compares what it
// leaves with an experiment that was not.
func killed(t *testing.T, kills int, most string) {
	text := strings.Replace(deterministic, "MOST", most, 1)
	whole, _ := options(t, text)
	if err := Run(t.Context(), whole); err != nil {
		t.Fatal(err)
	}
	want := results(t, rowsOf(t, whole.Folder))
	path := write(t, text)
	folder := filepath.Join(filepath.Dir(path), "results")
	random := rand.New(rand.NewPCG(uint64(kills), 1))
	// The whole experiment takes about this long; the kills come within that time, whatever
	// the random numbers are, and within half of it on average.
	length := experiment.Spent(rowsOf(t, whole.Folder))
	var before []experiment.Row
	done := 0
	for ended := false; !ended; {
		command := exec.Command(os.Args[0])
		command.Env = append(os.Environ(), "PILLION_TEST_EXPERIMENT="+path)
		var said bytes.Buffer
		command.Stderr = &said
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		exited := make(chan error, 1)
		go func() { exited <- command.Wait() }()
		after := time.Duration(random.Float64() * float64(length) / float64(kills) * float64(time.Nanosecond))
		if done >= kills {
			after = time.Hour
		}
		select {
		case err := <-exited:
			if err != nil {
				t.Fatalf("after %d kills: %v: %s", done, err, said.String())
			}
			ended = true
		case <-time.After(after + 20*time.Millisecond):
			if err := command.Process.Signal(syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			<-exited
			done++
		}
		rows, _, err := experiment.ReadJournal(folder)
		if err != nil {
			t.Fatalf("after %d kills: %v", done, err)
		}
		checkJournal(t, before, rows)
		before = rows
	}
	if got := results(t, before); !reflect.DeepEqual(got, want) {
		t.Errorf("after %d kills the results are\n%v\nand without\n%v", done, got, want)
	}
	abandoned := 0
	for _, row := range before {
		if !row.Kept {
			abandoned++
		}
	}
	t.Logf("killed %d times: %d runs in the journal, %d of them repeated", done, len(before), abandoned)
	if done < kills {
		t.Errorf("the experiment ended after %d of %d kills", done, kills)
	}
}

// checkJournal: every run that was in the journal still is, and none is there twice.
func checkJournal(t *testing.T, before, rows []experiment.Row) {
	t.Helper()
	if len(rows) < len(before) {
		t.Fatalf("%d of %d runs are left", len(rows), len(before))
	}
	for i, row := range before {
		now := rows[i]
		if now.Kept && !row.Kept {
			t.Fatalf("run %d is kept again", i)
		}
		now.Kept = row.Kept
		if !reflect.DeepEqual(now, row) {
			t.Fatalf("run %d was %+v and is %+v", i, row, now)
		}
	}
	type run struct{ block, position, attempt int }
	seen := map[run]bool{}
	for _, row := range rows {
		key := run{row.Block, row.Position, row.Attempt}
		if row.Kept && seen[key] {
			t.Fatalf("two kept runs are %+v", key)
		}
		seen[key] = seen[key] || row.Kept
	}
}

// results are what the analysis reads of the rows.
func results(t *testing.T, rows []experiment.Row) []string {
	t.Helper()
	var list []string
	for _, row := range rows {
		if row.Kept {
			list = append(list, fmt.Sprint(row.Block, row.Position, row.Attempt, row.Cell, row.Factors, row.Null, row.Valid, row.Why, row.Measures))
		}
	}
	return list
}

func TestKilled(t *testing.T) { killed(t, 6, "6") }
