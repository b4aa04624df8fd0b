package runner

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"pillion.dev/study/experiment"
)

// effect is a treatment that has been applied.
type effect interface {
	// undo removes it and returns its counters.
	undo() (map[string]any, error)
}

// apply applies the treatments of a run, in the order of the factors.
func (m *measurement) apply(ctx context.Context) error {
	for _, a := range m.spec.TreatmentsOf(m.turn.Cell) {
		if err := m.applyOne(ctx, a); err != nil {
			return fmt.Errorf("apply treatment %s=%s: %w", a.Factor, a.Level, err)
		}
	}
	return nil
}

func (m *measurement) applyOne(ctx context.Context, a experiment.Applied) error {
	var p place
	if a.Start != "" || a.Stop != "" || a.Command != "" {
		host := a.On
		if host == "" {
			host = m.spec.Run.On
		}
		var err error
		if p, err = m.place(host); err != nil {
			return err
		}
	}
	if a.Start != "" || a.Stop != "" {
		if err := m.change(ctx, p, a); err != nil {
			return err
		}
	}
	if a.Command != "" {
		if err := m.accompany(ctx, p, a); err != nil {
			return err
		}
	}
	if a.Session != nil {
		return m.applySession(ctx, a)
	}
	return nil
}

// change runs the start command, and has the stop command undo it even if it fails.
func (m *measurement) change(ctx context.Context, p place, a experiment.Applied) error {
	start, err := m.values.Replace(a.Start)
	if err != nil {
		return err
	}
	undo, err := m.values.Replace(a.Stop)
	if err != nil {
		return err
	}
	if undo != "" {
		forget, err := m.left.addStop(stop{p.name, undo, m.variables, readyTimeout})
		if err != nil {
			return err
		}
		m.applied = append(m.applied, undoing(func() (map[string]any, error) {
			defer forget()
			if err := m.finish(context.Background(), p, undo, readyTimeout); err != nil {
				return nil, fmt.Errorf("undo treatment %s=%s: stop: %w; what it left behind would disturb further runs", a.Factor, a.Level, err)
			}
			return nil, nil
		}))
	}
	if start == "" {
		return nil
	}
	return m.finish(ctx, p, start, readyTimeout)
}

// finish runs a command to its end.
func (r *runner) finish(ctx context.Context, p place, text string, timeout time.Duration) error {
	limited, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("%q took longer than %s", text, timeout))
	defer cancel()
	process, err := r.begin(p, text, "")
	if err != nil {
		return err
	}
	if err := process.wait(limited); err != nil {
		if limited.Err() == nil {
			err = process.Failure()
		}
		return fmt.Errorf("run %q: %w", text, err)
	}
	return nil
}

// accompany starts a command that runs beside the load.
func (m *measurement) accompany(ctx context.Context, p place, a experiment.Applied) error {
	text, err := m.values.Replace(a.Command)
	if err != nil {
		return err
	}
	process, err := m.begin(p, text, a.Ready)
	if err != nil {
		return err
	}
	m.applied = append(m.applied, undoing(func() (map[string]any, error) {
		if process.HasEnded() {
			return nil, errors.Join(invalid{fmt.Errorf("%s ended before the load: %w", process, process.Failure())}, process.stop())
		}
		err := process.stop()
		return process.Output.LastObject(), err
	}))
	if a.Ready == "" {
		return nil
	}
	return process.Ready(ctx)
}

// undo undoes the treatments in reverse order, and adds their counters to the row.
func (m *measurement) undo() error {
	var err error
	for i := len(m.applied) - 1; i >= 0; i-- {
		counters, failed := m.applied[i].undo()
		maps.Copy(m.row.Counters, counters)
		err = errors.Join(err, failed)
	}
	return err
}

// undoing is an effect made of a function.
type undoing func() (map[string]any, error)

func (u undoing) undo() (map[string]any, error) { return u() }
