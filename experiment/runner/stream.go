package runner

import "pillion.dev/experiment"

// stream sends rows to a server; a nil one does nothing.
type stream struct{}

func (s *stream) add(experiment.Row) {}

func (s *stream) close() error { return nil }
