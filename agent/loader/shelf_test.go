package loader

import (
	"sync"

	"pillion.dev/measure"
)

// shelf counts the rows of points.
type shelf struct {
	mu   sync.Mutex
	rows map[string]int64
	came chan struct{}
}

func newShelf() *shelf { return &shelf{rows: map[string]int64{}, came: make(chan struct{}, 1)} }

func (s *shelf) put(schema *measure.Schema, _ measure.Sample) { s.add(schema.Name) }

func (s *shelf) add(point string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rows[point]++
	select {
	case s.came <- struct{}{}:
	default:
	}
}

func (s *shelf) of(point string) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rows[point]
}
