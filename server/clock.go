package server

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"pillion.dev/internal/store"
	"pillion.dev/server/backup"
	"pillion.dev/server/event"
	"pillion.dev/server/steady"
	"pillion.dev/server/web"
)

// openClock opens the clock by which rows arrive and are removed.
func (s *server) openClock() (err error) {
	boot := steady.Boot()
	s.clock, err = steady.Open(steady.Options{
		Folder: s.config.Folder, Boot: boot, Witnesses: func() []time.Duration { return s.control.ClocksAhead(boot) },
	})
	path, file := strings.CutPrefix(s.config.Archive, DefaultArchive)
	path = cmp.Or(path, filepath.Join(s.config.Folder, backup.ArchiveFile))
	if _, missing := os.Lstat(path); file && !s.clock.New() && errors.Is(missing, fs.ErrNotExist) {
		store.Notice(filepath.Join(s.config.Folder, backup.ArchiveFile), "%s is missing, and a new archive begins: all rows are lost unless a backup is restored", path)
	}
	return err
}

// reportState reports state files that were damaged or missing.
func (s *server) reportState() {
	for _, text := range store.Notices(s.config.Folder) {
		s.local.Event(event.Event{Kind: "state-damaged", Level: event.Warning, Message: text})
	}
}

// followClock compares the clock with the wall clock and the agents' every 30 s until the context ends.
func (s *server) followClock(ctx context.Context) {
	ticks := time.NewTicker(30 * time.Second)
	defer ticks.Stop()
	for {
		s.reportState() // of what was read since
		s.stepClock()
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
	}
}

// stepClock does so once, and reports when removing old rows is held, and when it goes on.
func (s *server) stepClock() (held string) {
	before := s.clock.Held()
	held, err := s.clock.Step()
	if err != nil {
		s.log.Warn("save the clock: after a restart, old rows may stay for longer", "error", err)
	}
	switch {
	case held != "" && before == "":
		s.local.Event(event.Event{Kind: "retention-held", Level: event.Warning, Message: "retention held: no row is removed by its age: " + held})
	case held == "" && before != "":
		s.local.Event(event.Event{Kind: "retention-resumed", Level: event.Info, Message: "old rows are removed again"})
	}
	return held
}

// clockHealth does not fail: a server that keeps too much serves all requests.
func (s *server) clockHealth() web.Part {
	part := web.Part{Name: "clock", OK: true, Detail: "old rows are removed"}
	if held := s.clock.Held(); held != "" {
		part.Detail = "retention held: " + held
	}
	return part
}
