// Package runner carries out experiments: it applies the treatments of each run, starts the
// load, reads what it printed and writes the journal. It decides nothing that the journal
// does not show, so that an experiment continues after any interruption.
package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"time"

	"pillion.dev/api"
	"pillion.dev/internal/progress"
	"pillion.dev/internal/quantity"
	"pillion.dev/lab"
	"pillion.dev/study/experiment"
)

// Errors that a user can correct.
var (
	errNoHost = errors.New("no such host in the lab or under hosts")
	// ErrInvalid: too many runs of a cell in a row were invalid.
	ErrInvalid = errors.New("too many invalid runs in a row")
	// ErrLoad: other processes kept the machine busy for too long.
	ErrLoad = errors.New("the machine is too busy")
	// ErrBudget: the budget was over before there was a result.
	ErrBudget = errors.New("the budget does not suffice")
)

// Options say where and how an experiment runs.
type Options struct {
	// Spec and File are what experiment.Read returned.
	Spec *experiment.Spec
	File []byte
	// Path of the file, for hints and the commit of its folder.
	Path string
	// Folder of the results.
	Folder string
	// Resume continues the results in the folder; otherwise there must be none.
	Resume bool
	// Agent is the program pillion-agent, for labs and sessions by hand.
	Agent string
	// Dial connects to the server of sessions that are not by hand: to the server of the lab if it is not empty,
	// else to the server that the user has selected. May be nil.
	Dial func(server string) (*api.Client, error)
	// Collector receives the rows too, if it is not empty: an OMSP collector,
	// [tcp:]HOST[:PORT]. Domain is by default the name of the experiment.
	Collector, Domain string
	// Lock is the file of the machine's lock; Wait waits for it.
	Lock string
	Wait bool
	// Log receives progress, one line each.
	Log io.Writer
	// processors reads the time of the processors; by default from the kernel.
	processors func() (processorTime, bool)
}

// runner is one experiment in progress.
type runner struct {
	Options
	spec    *experiment.Spec
	turns   int
	journal *experiment.Journal
	left    *leftovers
	results string // absolute path of the folder
	lab     *lab.Lab
	// begun is when preparations began; prepared is their time until it is in a row.
	begun    time.Time
	prepared time.Duration
	// source and destination are the hosts at the ends of sessions, "" if there are none.
	source, destination string
	addresses           map[string]string
	// undoSetup is nil before the setup.
	undoSetup func() error
	// session is part of the names of sessions, so that sessions of a killed runner do not stand in the way.
	session   string
	variables []string // of the environment of all commands
	stream    *stream
	described time.Time // when the environment was
	bar       *progress.Bar
}

func (r *runner) say(format string, values ...any) {
	r.bar.Print(r.Log, time.Now().Format(time.TimeOnly)+"  "+fmt.Sprintf(format, values...))
}

// Run carries out an experiment until its stop rule ends it, or ctx does. What is complete
// by then is in the folder.
func Run(ctx context.Context, o Options) (err error) {
	r := &runner{Options: o, spec: o.Spec, turns: len(o.Spec.Order(0)), session: strconv.FormatInt(time.Now().Unix(), 36),
		bar: progress.New(o.Log, o.Spec.Experiment, progress.Count("run"))}
	defer r.bar.End()
	if err := r.check(); err != nil { // before waiting
		return err
	}
	release, err := lock(ctx, o.Lock, o.Spec.Experiment, o.Wait, r.say)
	if err != nil {
		return err
	}
	defer release()
	r.begun = time.Now()
	if r.results, err = filepath.Abs(r.Folder); err != nil {
		return fmt.Errorf("find folder of results: %w", err)
	}
	removeFolder, err := r.makeFolder()
	if err != nil {
		return err
	}
	defer removeFolder()
	var before *leftover
	if r.left, before, err = openLeftovers(filepath.Join(r.Folder, leftoverFile)); err != nil {
		return err
	}
	if err := r.undoLeftovers(ctx, before); err != nil {
		return err
	}
	if r.Resume {
		if err := r.openJournal(); err != nil {
			return err
		}
		if r.finished() {
			return errors.Join(r.reportAll(), r.journal.Close(), r.left.remove())
		}
	}
	return r.carryOut(ctx)
}

// check finds what makes the experiment impossible.
func (r *runner) check() error {
	if r.Resume {
		if err := experiment.Compare(r.Folder, r.spec); err != nil {
			return err
		}
	}
	if err := Check(r.spec, r.File); err != nil {
		return fmt.Errorf("%s: %w", r.Path, err)
	}
	return nil
}

// carryOut prepares, runs the blocks that are left and cleans up, also after an interrupt.
func (r *runner) carryOut(ctx context.Context) (err error) {
	defer func() {
		err = errors.Join(err, r.cleanUp())
		if r.journal != nil {
			err = errors.Join(err, r.journal.Close())
		}
	}()
	if err := r.prepare(ctx); err != nil {
		return err
	}
	if r.Resume {
		err = r.watchEnvironment(ctx, true)
	} else {
		err = errors.Join(r.createFolder(ctx), r.openJournal())
	}
	if err != nil {
		return err
	}
	r.stream.skip(r.journal.Rows())
	r.prepared = time.Since(r.begun)
	err = r.blocks(ctx)
	if err == nil || errors.Is(err, ErrBudget) {
		err = errors.Join(err, r.watchEnvironment(ctx, true))
	}
	if errors.Is(err, ErrBudget) && r.complete() > 0 { // the width that was reached is a result
		r.say("%v", err)
		return nil
	}
	return err
}

// openJournal opens the journal; runs of an unfinished block no longer count.
func (r *runner) openJournal() error {
	before, torn, err := experiment.ReadJournal(r.Folder)
	if err != nil {
		return err
	}
	if r.journal, err = experiment.OpenJournal(r.Folder, r.turns); err != nil || !r.Resume {
		return err
	}
	again := 0
	for i, row := range r.journal.Rows() {
		if before[i].Kept && !row.Kept {
			again++
		}
	}
	r.say("resuming: %s complete, %s of an unfinished block to be repeated",
		quantity.Count(r.complete(), "block"), quantity.Count(again, "run"))
	if torn {
		r.say("the last line of the journal was incomplete: that run does not count")
	}
	return nil
}

func (r *runner) complete() int { return experiment.Complete(r.journal.Rows(), r.turns) }

// finished reports whether no block is left.
func (r *runner) finished() bool {
	complete := r.complete()
	return complete >= r.spec.Decide(r.journal.Rows(), complete).Blocks
}

// blocks carries out one block after the other.
func (r *runner) blocks(ctx context.Context) error {
	for {
		rows, complete := r.journal.Rows(), r.complete()
		decision := r.spec.Decide(rows, complete)
		if complete >= decision.Blocks {
			return nil
		}
		blockTime, spent := experiment.BlockTime(rows, complete), experiment.Spent(rows)+r.prepared
		if budget := time.Duration(r.spec.Stop.Budget); budget > 0 && spent+blockTime > budget {
			if complete == 0 {
				return fmt.Errorf("%w: %s, of which %s were spent before the first block was complete", ErrBudget, r.spec.Stop.Budget, round(spent))
			}
			return fmt.Errorf("%w for another block: %s, of which %s are spent, and a block takes %s",
				ErrBudget, r.spec.Stop.Budget, round(spent), round(blockTime))
		}
		if err := r.block(ctx, complete); err != nil {
			return err
		}
		if err := r.stream.report(r.journal.Rows()); err != nil {
			return err
		}
		r.sayProgress()
		if err := r.watchEnvironment(ctx, false); err != nil {
			return err
		}
	}
}

// reportAll reports what a collector lacks of results that are complete.
func (r *runner) reportAll() error {
	var err error
	if r.stream, err = openStream(r.Options); err != nil {
		return err
	}
	r.stream.skip(r.journal.Rows())
	return errors.Join(r.stream.report(r.journal.Rows()), r.stream.close())
}

func (r *runner) sayProgress() {
	p := experiment.Progress(r.spec, r.journal.Rows())
	r.say("%s", p.Line())
}

// block carries out the runs of a block in their order.
func (r *runner) block(ctx context.Context, block int) error {
	blocks := experiment.Progress(r.spec, r.journal.Rows()).Decision.Blocks // the stop rule may add some
	for i, turn := range r.spec.Order(block) {
		r.bar.Set(int64(block*r.turns+i), int64(blocks*r.turns), r.spec.Name(turn.Cell))
		for turn.Attempt = 1; ; turn.Attempt++ {
			row, failed := r.run(ctx, turn)
			if failed != nil && row.Why == "" {
				return fmt.Errorf("block %d, %s: %w", block+1, r.spec.Name(turn.Cell), failed)
			}
			row.Prepared = r.prepared.Seconds()
			if err := r.journal.Append(row); err != nil {
				return err
			}
			r.prepared = 0
			if failed != nil {
				return fmt.Errorf("block %d, %s: %w", block+1, r.spec.Name(turn.Cell), failed)
			}
			if row.Valid {
				break
			}
			r.say("invalid run of %s: %s", r.spec.Name(turn.Cell), row.Why)
			if turn.Attempt >= r.spec.Run.Attempts {
				return fmt.Errorf("block %d, %s: %w: %d, the last one because %s",
					block+1, r.spec.Name(turn.Cell), ErrInvalid, turn.Attempt, row.Why)
			}
		}
	}
	return nil
}

func now() time.Time { return time.Now().UTC() }

func round(d time.Duration) time.Duration {
	if d > 10*time.Second {
		return d.Round(time.Second)
	}
	return d.Round(time.Millisecond)
}
