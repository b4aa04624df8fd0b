package runner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// scratchFolder is the name of the folder of the setup's files, inside the folder of the results.
const scratchFolder = "scratch"

// setUp runs the setup's command, with an empty folder for its files.
func (r *runner) setUp(ctx context.Context) error {
	s := r.spec.Setup
	if s == nil {
		return nil
	}
	scratch, err := filepath.Abs(filepath.Join(r.Folder, scratchFolder))
	if err != nil {
		return fmt.Errorf("set up: %w", err)
	}
	if err := os.RemoveAll(scratch); err != nil { // of a runner that was killed
		return fmt.Errorf("set up: %w", err)
	}
	if err := os.Mkdir(scratch, 0o755); err != nil {
		return fmt.Errorf("set up: %w", err)
	}
	r.undoSetup = func() error { return os.RemoveAll(scratch) }
	r.addresses["scratch"] = scratch
	r.variables = []string{"PILLION_EXPERIMENT=" + r.spec.Experiment}
	if r.spec.IsQuick() {
		r.variables = append(r.variables, quickVariable)
	}
	values := r.spec.SetupValues()
	values.AddHosts(r.addresses)
	start, err := values.Replace(s.Start)
	if err != nil {
		return fmt.Errorf("set up: %w", err)
	}
	undo, err := values.Replace(s.Stop)
	if err != nil {
		return fmt.Errorf("set up: %w", err)
	}
	host := s.On
	if host == "" {
		host = r.spec.Run.On
	}
	p, err := r.place(host)
	if err != nil {
		return fmt.Errorf("set up: %w", err)
	}
	if undo != "" {
		forget, err := r.left.addStop(stop{p.name, undo, r.variables, time.Duration(s.Timeout)})
		if err != nil {
			return fmt.Errorf("set up: %w", err)
		}
		r.undoSetup = func() error {
			defer forget()
			// The caller's context may have ended.
			return errors.Join(r.finish(context.Background(), p, undo, time.Duration(s.Timeout)), os.RemoveAll(scratch))
		}
	}
	r.say("setting up: %s", start)
	begin := time.Now()
	if err := r.finish(ctx, p, start, time.Duration(s.Timeout)); err != nil {
		return fmt.Errorf("set up: %w", err)
	}
	r.say("set up in %s", round(time.Since(begin)))
	return nil
}

// tearDown undoes the setup, also one that failed.
func (r *runner) tearDown() error {
	if r.undoSetup == nil {
		return nil
	}
	if err := r.undoSetup(); err != nil {
		return fmt.Errorf("undo the setup: %w", err)
	}
	return nil
}
