// Package pillion has the commands of pillion about experiments.
package pillion

import (
	"pillion.dev/cli/command"
	"pillion.dev/study/experiment"
	"pillion.dev/study/experiment/runner"
)

type commands struct {
	Experiment experimentCmd `cmd:"" help:"Run designed experiments: factors, random blocks, and answers with their uncertainty."`
}

// Wing is what pillion registers.
func Wing() command.Wing {
	return command.Wing{Commands: func() any { return &commands{} }, Hints: []command.Hint{
		command.Correctable(command.Is(experiment.ErrChanged), "give the new design a folder of its own with --results, or restore the file"),
		command.Correctable(command.Is(experiment.ErrExists), "continue with pillion experiment resume, or choose another folder with --results"),
		command.Correctable(command.Is(experiment.ErrNoResults), "pillion experiment run begins it; --results names another folder"),
		command.Correctable(command.Is(experiment.ErrSpec), "docs/reference/experiment.md describes the file"),
		command.Failure(command.Is(runner.ErrBusy), "wait for it with --wait"),
		command.Failure(command.Is(runner.ErrInvalid), "correct the load or the condition of invalid runs; the reasons are in journal.jsonl of the results"),
		command.Failure(command.Is(runner.ErrLoad), "end what keeps the machine busy, or raise load_below or wait under environment.require"),
		command.Failure(command.Is(runner.ErrBudget), "raise budget under stop"),
		command.Failure(command.Is(errNoPython), "name a Python with --python or PILLION_PYTHON"),
		command.Failure(command.Is(errPython), "in the source tree, run pip install './python[analysis]' in a virtual environment, and name its Python with --python"),
	}}
}
