package pillion

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"pillion.dev/cli/command"
	"pillion.dev/cli/pillion"
	"pillion.dev/internal/outfile"
	"pillion.dev/internal/quantity"
	"pillion.dev/study/experiment"
	"pillion.dev/study/experiment/runner"
)

type experimentCmd struct {
	Check  experimentCheckCmd  `cmd:"" help:"Check an experiment's file."`
	Plan   experimentPlanCmd   `cmd:"" help:"Show the cells, the order of runs and the expected duration."`
	Run    experimentRunCmd    `cmd:"" help:"Run an experiment until its answer is precise enough."`
	Status experimentStatusCmd `cmd:"" help:"Show progress, widths and verdicts so far."`
	Resume experimentResumeCmd `cmd:"" help:"Continue an experiment that was interrupted."`
	Report experimentReportCmd `cmd:"" help:"Write a report with statistics and plots as an HTML file."`
}

// experimentFile is the file of an experiment; its results are in a folder.
type experimentFile struct {
	File    string `arg:"" predictor:"file" help:"YAML file of the experiment; see docs/reference/experiment.md."`
	Results string `placeholder:"DIR" type:"path" predictor:"file" help:"Folder of the results; default: NAME-results in the working directory."`
}

// folder is the folder of the results; a quick experiment has another one.
func (f experimentFile) folder(s *experiment.Spec) string {
	if s.IsQuick() {
		return cmp.Or(f.Results, s.Experiment+"-quick")
	}
	return cmp.Or(f.Results, s.Experiment+"-results")
}

// experimentResults is a file or the folder of its results.
type experimentResults struct {
	File    string `arg:"" predictor:"file" help:"YAML file of the experiment, or the folder of its results."`
	Results string `placeholder:"DIR" type:"path" predictor:"file" help:"Folder of the results; default: NAME-results in the working directory."`
}

// read returns the experiment and the folder of its results.
func (f experimentResults) read() (*experiment.Spec, string, error) {
	if info, err := os.Stat(f.File); err == nil && info.IsDir() {
		s, _, err := experiment.Read(filepath.Join(f.File, experiment.SpecFile))
		if errors.Is(err, os.ErrNotExist) {
			err = fmt.Errorf("open results in %s: %w", f.File, experiment.ErrNoResults)
		}
		if err == nil {
			s.Follow(f.File)
		}
		return s, f.File, err
	}
	s, _, err := experiment.Read(f.File)
	if err != nil {
		return nil, "", err
	}
	folder := cmp.Or(f.Results, s.Experiment+"-results")
	s.Follow(folder)
	return s, folder, experiment.Compare(folder, s)
}

type experimentCheckCmd struct {
	File string `arg:"" predictor:"file" help:"YAML file of the experiment."`
}

// Help has the examples.
func (experimentCheckCmd) Help() string {
	return `Mistakes are listed with their lines: first all keys and values that cannot be read, then, of a file without these, all
that do not fit together, the lab's file and this machine. The commands of every cell are resolved; nothing is run.

Examples:

  pillion experiment check overhead.yaml`
}

// Run checks the file.
func (c *experimentCheckCmd) Run(a *pillion.App) error {
	s, text, err := experiment.Read(c.File)
	if err == nil {
		if err = runner.Check(s, text); err != nil {
			err = fmt.Errorf("%s: %w", c.File, err)
		}
	}
	if err != nil {
		return mistakes(a, c.File, err)
	}
	hash, err := s.Hash()
	if err != nil {
		return err
	}
	return a.Done("%s: valid; %s, design %s", c.File, cellsText(s), hash[:12])
}

// mistakes prints the mistakes of a file, one a line.
func mistakes(a *pillion.App, path string, err error) error {
	var several interface{ Unwrap() []error }
	if !errors.Is(err, experiment.ErrSpec) || !errors.As(errors.Unwrap(err), &several) || len(several.Unwrap()) < 2 {
		return err
	}
	all := several.Unwrap()
	if errors.Is(all[0], experiment.ErrSpec) && errors.Is(all[1], experiment.ErrSpec) {
		for _, mistake := range all {
			a.Note("%s: %v", path, mistake)
		}
		return fmt.Errorf("check %s: %w: %d mistakes", path, pillion.ErrRefused, len(all))
	}
	return err
}

type experimentPlanCmd struct {
	experimentFile
	Blocks int `default:"2" placeholder:"N" help:"Show the order of the first N blocks (${default})."`
}

// Help has the examples.
func (experimentPlanCmd) Help() string {
	return `The order of a block follows from the seed and the block's number: run uses exactly this one. The duration is computed
from the runs so far if there are results, else from run.duration in the file.

Examples:

  pillion experiment plan overhead.yaml
  pillion experiment plan overhead.yaml --blocks 1 -o json`
}

// Run prints the plan.
func (c *experimentPlanCmd) Run(a *pillion.App) error {
	s, _, err := experiment.Read(c.File)
	if err != nil {
		return mistakes(a, c.File, err)
	}
	if c.Blocks < 0 || c.Blocks > 1000 {
		return fmt.Errorf("read blocks: %w: %d is not between 0 and 1000", command.ErrValue, c.Blocks)
	}
	rows, _, err := experiment.ReadJournal(c.folder(s))
	if err != nil {
		return err
	}
	return showExperimentPlan(a, s, s.Plan(rows, c.Blocks))
}

// runFlags say how runs are carried out.
type runFlags struct {
	Agent     string `placeholder:"PATH" env:"PILLION_AGENT" type:"path" predictor:"file" help:"The program pillion-agent, for labs and sessions; default: beside this program, else on the PATH."`
	Collector string `placeholder:"HOST[:PORT]" help:"Also report rows to the OMSP listener of a server, as the tables experiment_runs and experiment_intervals of a domain; pillion oml domains lists them."`
	Domain    string `placeholder:"NAME" help:"Domain of these rows; default: the name of the experiment."`
	Wait      bool   `help:"Wait for another experiment on this machine; default: refuse to start."`
	Lock      string `placeholder:"FILE" type:"path" hidden:"" help:"Lock of this machine."`
}

// carryOut runs or resumes an experiment and prints how it ended.
func (f runFlags) carryOut(ctx context.Context, a *pillion.App, file experimentFile, resume, quick bool) error {
	s, text, err := experiment.Read(file.File)
	if err != nil {
		return mistakes(a, file.File, err)
	}
	if quick {
		s.Quick()
	}
	folder := file.folder(s)
	if resume {
		s.Follow(folder)
	}
	before := experiment.HasResults(folder)
	err = runner.Run(ctx, runner.Options{
		Spec: s, File: text, Path: file.File, Folder: folder, Resume: resume, Agent: f.agent(), Log: a.Err(),
		Dial: a.DialTo, Collector: f.Collector, Domain: f.Domain,
		Lock: cmp.Or(f.Lock, runner.LockFile()), Wait: f.Wait,
	})
	if errors.Is(err, experiment.ErrSpec) {
		return mistakes(a, file.File, err)
	}
	if !experiment.HasResults(folder) {
		if ctx.Err() != nil {
			a.Note("there are no results yet; begin again with: %s", file.again("run", quick))
		}
		return err
	}
	rows, _, readErr := experiment.ReadJournal(folder)
	if errors.Is(err, runner.ErrReport) && readErr == nil {
		if p := experiment.Progress(s, rows); p.Finished || p.OverBudget { // the results are complete
			return errors.Join(showExperiment(a, s, folder, p), err)
		}
	}
	if err != nil || readErr != nil {
		none := !slices.ContainsFunc(rows, func(row experiment.Row) bool { return row.Valid })
		if none && resume == before && readErr == nil && ctx.Err() == nil && !correctable(err) {
			a.Note("no run in %s counts; if the file has to be corrected, remove that folder and begin again with: %s", folder, file.again("run", quick))
		}
		if ctx.Err() != nil || resume == before && readErr == nil && !correctable(err) {
			a.Note("%s are in %s; continue with: %s", quantity.Count(len(rows), "run"), folder, file.again("resume", false))
		}
		return errors.Join(err, readErr)
	}
	return showExperiment(a, s, folder, experiment.Progress(s, rows))
}

// again is the command that carries on.
func (f experimentFile) again(verb string, quick bool) string {
	text := "pillion experiment " + verb + " " + f.File
	if quick {
		text += " --quick"
	}
	if f.Results != "" {
		text += " --results " + f.Results
	}
	return text
}

// correctable errors need another file, folder or lock before the experiment can continue.
func correctable(err error) bool {
	return errors.Is(err, experiment.ErrChanged) || errors.Is(err, runner.ErrBusy)
}

// agent finds the program.
func (f runFlags) agent() string {
	if f.Agent != "" {
		return f.Agent
	}
	const name = "pillion-agent"
	if own, err := os.Executable(); err == nil {
		beside := filepath.Join(filepath.Dir(own), name)
		if _, err := os.Stat(beside); err == nil {
			return beside
		}
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return name
	}
	return path
}

type experimentRunCmd struct {
	experimentFile
	runFlags
	Quick bool `help:"Prove that the experiment works: three blocks, no requirements on the machine, runs that would be invalid count, and QUICK=1 in the environment of commands, which can be short then. The results, in NAME-quick by default, are no figures."`
}

// Help has the examples.
func (experimentRunCmd) Help() string {
	return `Runs are in random complete blocks. Each is in the journal of the results once it is on disk; an interrupted
experiment can be resumed. The pilot blocks decide how many blocks follow, by the width of the intervals and never by
what they show. Experiments in a lab need root; only one experiment runs on a machine at a time.

Examples:

  pillion experiment run overhead.yaml
  pillion experiment run overhead.yaml --quick
  pillion experiment run overhead.yaml --results /data/overhead-2 --wait
  pillion experiment run overhead.yaml --collector noc.example`
}

// Run carries out an experiment.
func (c *experimentRunCmd) Run(ctx context.Context, a *pillion.App) error {
	return c.carryOut(ctx, a, c.experimentFile, false, c.Quick)
}

type experimentResumeCmd struct {
	experimentFile
	runFlags
}

// Help has the examples.
func (experimentResumeCmd) Help() string {
	return `The block that was interrupted runs again from its beginning; its earlier runs stay in the journal, marked as not
kept. What a runner that was killed left behind is undone first: its processes, its lab, its treatments and its
sessions. If the design has changed, the differences are shown and nothing is run. Results of --quick stay quick.

Examples:

  pillion experiment resume overhead.yaml`
}

// Run continues an experiment.
func (c *experimentResumeCmd) Run(ctx context.Context, a *pillion.App) error {
	return c.carryOut(ctx, a, c.experimentFile, true, false)
}

type experimentStatusCmd struct{ experimentResults }

// Help has the examples.
func (experimentStatusCmd) Help() string {
	return `A target is met or missed if the whole interval is on one side of it, else undecided.

Examples:

  pillion experiment status overhead.yaml
  pillion experiment status overhead-results -o json`
}

// Run prints the state.
func (c *experimentStatusCmd) Run(a *pillion.App) error {
	s, folder, err := c.read()
	if err != nil {
		return err
	}
	rows, _, err := experiment.ReadJournal(folder)
	if err != nil {
		return err
	}
	return showExperiment(a, s, folder, experiment.Progress(s, rows))
}

type experimentReportCmd struct {
	experimentResults
	To      outfile.Path `short:"f" name:"file" placeholder:"FILE" type:"path" predictor:"file" help:"HTML file; - is standard output; default: report.html in the folder of the results."`
	Paper   string       `placeholder:"NAME" help:"Set the published tables and figures of a paper beside the results: pezaros-2011, hamilton-2012, angrisani, mehani-2011 or li-2015."`
	Publish string       `placeholder:"HOST[:PORT]" help:"Also show the report on the page of the server whose OMSP listener this is. A token that it requires is read from the file that PILLION_OML_TOKEN_FILE names."`
	Python  string       `default:"python3" env:"PILLION_PYTHON" placeholder:"PATH" help:"Python with the package pillion[analysis] (${default})."`
}

// Help has the examples.
func (experimentReportCmd) Help() string {
	return `The Python package pillion computes the statistics and draws the plots. It has to be installed with its extra
analysis.

Examples:

  pillion experiment report overhead.yaml
  pillion experiment report overhead-results -f overhead.html --paper pezaros-2011
  pillion experiment report overhead.yaml --publish noc.example`
}

// errNoPython is a Python that is not there.
var errNoPython = errors.New("it cannot be started")

// errPython is a Python without the package.
var errPython = errors.New("the Python package pillion[analysis] is missing")

// Run executes pillion.report.
func (c *experimentReportCmd) Run(ctx context.Context, a *pillion.App) error {
	_, folder, err := c.read()
	if err != nil {
		return err
	}
	file := cmp.Or(c.To, outfile.Path(filepath.Join(folder, "report.html")))
	probe := exec.CommandContext(ctx, c.Python, "-c", "import pillion.report")
	said, err := probe.CombinedOutput()
	if failed := (&exec.ExitError{}); err != nil && !errors.As(err, &failed) {
		return fmt.Errorf("write report with %s: %w: %w", c.Python, errNoPython, err)
	}
	if err != nil {
		return fmt.Errorf("write report with %s: %w: %s", c.Python, errPython, lastLine(cmp.Or(string(said), err.Error())))
	}
	arguments := []string{"-m", "pillion.report", folder, "-o", string(outfile.Stdout)}
	if c.Paper != "" {
		arguments = append(arguments, "--paper", c.Paper)
	}
	if c.Publish != "" {
		arguments = append(arguments, "--publish", c.Publish)
	}
	report := exec.CommandContext(ctx, c.Python, arguments...)
	report.Stderr = a.Err()
	err = file.Replace(ctx, 0o666, func(to *os.File) error {
		report.Stdout = to
		return report.Run()
	})
	if err != nil {
		return fmt.Errorf("write report with %s: %w", c.Python, err)
	}
	if c.Publish != "" {
		return a.Written(file, "report written to %s, and published on the page of %s", file, c.Publish)
	}
	return a.Written(file, "report written to %s", file)
}
