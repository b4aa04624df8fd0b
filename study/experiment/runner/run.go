package runner

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"pillion.dev/study/experiment"
)

// invalid is why a run does not count. It is no error of the experiment: the run is
// recorded and repeated.
type invalid struct{ cause error }

func (i invalid) Error() string { return i.cause.Error() }
func (i invalid) Unwrap() error { return i.cause }

// run carries out one run. An error ends the experiment; a run that does not count is a row.
func (r *runner) run(ctx context.Context, turn experiment.Turn) (experiment.Row, error) {
	row := experiment.Row{
		Block: turn.Block, Position: turn.Position, Cell: turn.Cell.Index, Factors: turn.Cell.Levels, Null: turn.Null,
		Attempt: turn.Attempt, Kept: true, Measures: map[string]float64{}, Counters: map[string]any{},
		Intervals: []map[string]any{}, Clock: readClock(), Started: now(),
	}
	values := r.spec.Values(turn.Cell, turn)
	values.AddHosts(r.addresses)
	r.setVariables(turn, values)
	left, limited := r.leftOfBudget()
	begin := time.Now()
	m := &measurement{runner: r, turn: turn, values: values, row: &row}
	if limited {
		m.deadline = begin.Add(left)
	}
	err := m.measure(ctx)
	row.Seconds = time.Since(begin).Seconds()
	row.Overhead = row.Seconds - m.outside.Seconds()
	if ctx.Err() != nil {
		return row, context.Cause(ctx)
	}
	if errors.Is(err, ErrLoad) || errors.Is(err, ErrBudget) { // the row tells where the time went
		row.Why = err.Error()
		return row, err
	}
	if why := (invalid{}); errors.As(err, &why) {
		row.Why = why.Error()
		return row, nil
	}
	row.Valid = err == nil
	return row, err
}

// leftOfBudget is the time until the budget is over, if there is one.
func (r *runner) leftOfBudget() (left time.Duration, limited bool) {
	budget := time.Duration(r.spec.Stop.Budget)
	return budget - experiment.Spent(r.journal.Rows()) - r.prepared, budget > 0
}

// quickVariable tells commands to be short; files use it as ${QUICK:+--short}.
const quickVariable = "QUICK=1"

// setVariables tells commands which run they are part of.
func (r *runner) setVariables(turn experiment.Turn, values experiment.Values) {
	r.variables = []string{
		"PILLION_EXPERIMENT=" + r.spec.Experiment, "PILLION_BLOCK=" + values["block"],
		"PILLION_POSITION=" + values["position"], "PILLION_ATTEMPT=" + values["attempt"], "PILLION_SEED=" + values["seed"],
	}
	if r.spec.IsQuick() {
		r.variables = append(r.variables, quickVariable)
	}
	for _, f := range r.spec.Factors {
		name := strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		r.variables = append(r.variables, "PILLION_FACTOR_"+name+"="+turn.Cell.Levels[f.Name])
	}
}

// measurement is one run in progress.
type measurement struct {
	*runner
	turn    experiment.Turn
	values  experiment.Values
	row     *experiment.Row
	applied []effect
	output  experiment.Output
	// outside is the time of treatments, pauses and load.
	outside time.Duration
	// deadline is when the budget is over, zero for never.
	deadline time.Time
}

// timed adds the time that f takes to that outside the runner.
func (m *measurement) timed(f func() error) error {
	begin := time.Now()
	err := f()
	m.outside += time.Since(begin)
	return err
}

func (m *measurement) measure(ctx context.Context) error {
	err := m.timed(func() error { return m.apply(ctx) })
	if err == nil {
		err = m.timed(func() error { return m.checkBare(ctx) })
	}
	if err == nil {
		err = m.load(ctx)
	}
	undone := m.timed(func() error { return m.undo() })
	if err = errors.Join(err, undone); err != nil {
		return err
	}
	if m.row.Measures, err = m.spec.Measured(m.output, m.row.Counters); err != nil {
		return invalid{err}
	}
	return m.judge()
}

// load pauses, warms up and runs the load.
func (m *measurement) load(ctx context.Context) error {
	err := m.timed(func() (err error) {
		m.row.Load, err = m.settle(ctx)
		return err
	})
	if err != nil {
		return err
	}
	p, err := m.loadPlace()
	if err != nil {
		return err
	}
	text, err := m.values.Replace(m.spec.Run.Command)
	if err != nil {
		return err
	}
	if m.spec.Run.Warmup > 0 && !strings.Contains(m.spec.Run.Command, "{warmup}") {
		if err := m.timed(func() error { return m.warmUp(ctx, p, text) }); err != nil {
			return err
		}
	}
	before, _ := readProcessors()
	err = m.timed(func() error { return m.execute(ctx, p, text) })
	after, _ := readProcessors()
	m.row.Steal = after.stealSince(before)
	return err
}

// warmUp runs the load unmeasured.
func (m *measurement) warmUp(ctx context.Context, p place, text string) error {
	process, err := m.begin(p, text, "")
	if err != nil {
		return err
	}
	limit := time.NewTimer(time.Duration(m.spec.Run.Warmup))
	defer limit.Stop()
	select {
	case <-limit.C:
	case <-process.Ended():
		if process.Exit() != nil {
			err = invalid{fmt.Errorf("the warm-up failed: %w", process.Failure())}
		}
	case <-ctx.Done():
	}
	return errors.Join(err, process.stop())
}

// execute runs the load and reads its output.
func (m *measurement) execute(ctx context.Context, p place, text string) error {
	timeout := time.Duration(m.spec.Run.Timeout)
	limited, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("the load took longer than %s", m.spec.Run.Timeout))
	defer cancel()
	process, err := m.begin(p, text, "")
	if err != nil {
		return err
	}
	if err := process.wait(limited); err != nil {
		if limited.Err() == nil {
			err = fmt.Errorf("the load failed: %w", process.Failure())
		}
		return invalid{err}
	}
	if limit, over := process.Output.Limit(); over {
		return invalid{fmt.Errorf("the load printed more than %d MiB", limit>>20)}
	}
	if m.output, err = m.spec.Run.ParseOutput(process.Output.Bytes()); err != nil {
		return invalid{err}
	}
	if m.output.Intervals != nil {
		m.row.Intervals = m.output.Intervals
	}
	return nil
}

// judge decides whether the run counts.
func (m *measurement) judge() error {
	names := experiment.Names(m.row.Counters, m.row.Measures, m.output)
	for _, a := range m.spec.TreatmentsOf(m.turn.Cell) {
		if a.Expect == nil || a.Expect.Bare {
			continue
		}
		holds, err := a.Expect.Condition.Holds(names)
		if err != nil {
			return fmt.Errorf("treatment %s=%s: %w", a.Factor, a.Level, err)
		}
		if !holds {
			return invalid{fmt.Errorf("treatment %s=%s: expected %s%s", a.Factor, a.Level, a.Expect, a.Expect.Condition.Seen(names))}
		}
	}
	if m.spec.Invalid == nil {
		return nil
	}
	is, err := m.spec.Invalid.Holds(names)
	if err != nil {
		return fmt.Errorf("decide whether the run is invalid: %w", err)
	}
	if is {
		return invalid{errors.New(m.spec.Invalid.String() + m.spec.Invalid.Seen(names))}
	}
	return nil
}
