package control

import (
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"pillion.dev/internal/store"
	"pillion.dev/session"
)

// documents has the files that differ from the state in memory.
type documents struct{ agents, sessions, assignments bool }

type agentsFile struct {
	// Format is agentsFormat; 0 in files of versions before labels had to be approved.
	Format int         `json:"format,omitempty"`
	Agents []enrolment `json:"agents"`
	// Retired are the numbers of agents that were deleted lately, and when.
	Retired map[uint32]time.Time `json:"retired,omitempty"`
}

const agentsFormat = 1

type sessionsFile struct {
	Sessions []saved `json:"sessions"`
	Runs     []Run   `json:"runs"`
}

type assignmentsFile struct {
	Assignments map[string]session.Assignment `json:"assignments"`
}

func (c *Control) path(name string) string { return filepath.Join(c.Dir, name+".json") }

func (c *Control) load() error {
	var agents agentsFile
	var sessions sessionsFile
	var assignments assignmentsFile
	for name, into := range map[string]any{"agents": &agents, "sessions": &sessions, "assignments": &assignments} {
		if _, err := store.Load(c.path(name), into); err != nil {
			return err
		}
	}
	now := c.Now()
	for _, e := range agents.Agents {
		if agents.Format == 0 {
			// Once: what sessions selected before the upgrade they select after it.
			e.ApprovedLabels = e.OwnLabels
			c.changed.agents = true
		}
		if err := c.reconcile(&e); err != nil {
			return err
		}
		c.agents[e.Name] = newAgent(e)
	}
	c.retired = agents.Retired
	for _, name := range slices.Sorted(maps.Keys(c.agents)) { // of a version without numbers
		c.number(c.agents[name])
	}
	for _, s := range sessions.Sessions {
		if len(s.Key) == 0 { // saved by an earlier version
			s.Key, c.changed.sessions = session.NewKey(), true
		}
		c.sessions[s.Spec.Name] = &record{saved: s, changed: now}
	}
	c.runs = sessions.Runs
	for name, sent := range assignments.Assignments {
		if a := c.agents[name]; a != nil {
			a.adopt(sent, now)
			if sent.Leased() {
				c.adoptUntil = now.Add(adoptTime)
			}
		}
	}
	return nil
}

// take returns the documents to be written, and marks them as written. The caller
// holds the lock.
func (c *Control) take() map[string]any {
	files := map[string]any{}
	if c.changed.agents {
		f := agentsFile{Format: agentsFormat, Retired: maps.Clone(c.retired)}
		for _, name := range slices.Sorted(maps.Keys(c.agents)) {
			f.Agents = append(f.Agents, c.agents[name].enrolment.clone())
		}
		files["agents"] = f
	}
	if c.changed.sessions {
		f := sessionsFile{Runs: slices.Clone(c.runs)}
		for _, name := range slices.Sorted(maps.Keys(c.sessions)) {
			f.Sessions = append(f.Sessions, c.sessions[name].saved.clone())
		}
		files["sessions"] = f
	}
	if c.changed.assignments {
		f := assignmentsFile{Assignments: map[string]session.Assignment{}}
		for name, a := range c.agents {
			if a.sent.Revision != 0 {
				f.Assignments[name] = a.sent
			}
		}
		files["assignments"] = f
	}
	c.changed = documents{}
	return files
}

// Flush writes what has changed since the last round.
func (c *Control) Flush() error { return c.write() }

// save writes what changed in a round. Failed writes are retried in the next one; a
// server that cannot write continues to measure.
func (c *Control) save() {
	if err := c.write(); err != nil {
		c.Log.Error("cannot save the server's state", "error", err)
	}
}

// write writes the changed documents; when it returns without an error, all previous
// changes are on disk.
func (c *Control) write() error {
	c.saving.Lock()
	defer c.saving.Unlock()
	c.mu.Lock()
	files := c.take()
	c.mu.Unlock()
	var failed error
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := store.Save(c.path(name), files[name], 0o600); err != nil {
			failed = errors.Join(failed, err)
			c.mu.Lock()
			c.mark(name)
			c.mu.Unlock()
		}
	}
	c.mu.Lock()
	c.unsaved = failed
	c.mu.Unlock()
	return failed
}

func (c *Control) mark(name string) {
	switch name {
	case "agents":
		c.changed.agents = true
	case "sessions":
		c.changed.sessions = true
	case "assignments":
		c.changed.assignments = true
	}
}

// commit writes what the caller just changed under the lock; undo reverts it if that
// fails.
func (c *Control) commit(undo func()) error {
	if err := c.write(); err != nil {
		c.mu.Lock()
		undo()
		c.mu.Unlock()
		return err
	}
	c.hurry()
	return nil
}

const runsMax = 1000 // runs in the history

// remember adds a run that has ended to the history.
func (c *Control) remember(run Run) {
	c.runs = append(c.runs, run)
	if over := len(c.runs) - runsMax; over > 0 {
		c.runs = slices.Delete(c.runs, 0, over)
	}
	c.changed.sessions = true
}
