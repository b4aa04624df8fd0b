package lane_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"pillion.dev/archive"
)

// shelf is an archive of several servers whose inserts may land long after their sender is
// gone, as with a database on other hosts.
type shelf struct {
	archive.Archive
	// fenced ends what earlier owners of a lane have under way before the lane is opened.
	fenced bool
	// slow is how long an insert in five takes, at most.
	slow time.Duration

	mu     sync.Mutex
	lanes  map[int]*shelfLane
	stored map[string]int // how many times each batch is stored
}

type shelfLane struct {
	owner   uint64
	known   map[string]bool
	pending map[*insert]bool
}

// insert is under way until it lands or is ended.
type insert struct {
	landed chan struct{}
	ended  chan struct{}
}

func newShelf(fenced bool, slow time.Duration) *shelf {
	return &shelf{fenced: fenced, slow: slow, lanes: map[int]*shelfLane{}, stored: map[string]int{}}
}

// OpenLane reads which batches are stored.
func (s *shelf) OpenLane(_ context.Context, lane int, owner uint64) (archive.Lane, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.lanes[lane]
	if l == nil {
		l = &shelfLane{known: map[string]bool{}, pending: map[*insert]bool{}}
		s.lanes[lane] = l
	}
	if owner <= l.owner {
		return nil, archive.ErrFenced
	}
	l.owner = owner
	if s.fenced {
		for one := range l.pending {
			close(one.ended)
			delete(l.pending, one)
		}
	}
	known := map[string]bool{}
	for key := range l.known {
		known[key] = true
	}
	return &owned{s, l, owner, known}, nil
}

// owned is a lane as one owner knows it.
type owned struct {
	shelf *shelf
	lane  *shelfLane
	owner uint64
	known map[string]bool
}

func (o *owned) Close() error { return nil }

// Store returns when the context ends; the insert may land all the same.
func (o *owned) Store(ctx context.Context, batches []archive.Batch) ([]bool, map[int]error, error) {
	stored := make([]bool, len(batches))
	var keys []string
	for i, b := range batches {
		key := fmt.Sprint(b.Agent, b.Key)
		stored[i] = !o.known[key]
		if stored[i] {
			keys = append(keys, key)
		}
	}
	one := &insert{landed: make(chan struct{}), ended: make(chan struct{})}
	s := o.shelf
	s.mu.Lock()
	if s.fenced && s.owner(o) != o.owner {
		s.mu.Unlock()
		return nil, nil, archive.ErrFenced
	}
	o.lane.pending[one] = true
	s.mu.Unlock()
	wait := rand.N(5 * time.Millisecond)
	if rand.N(5) == 0 {
		wait = rand.N(s.slow)
	}
	time.AfterFunc(wait, func() { s.land(o.lane, one, keys) })
	select {
	case <-one.landed:
	case <-one.ended:
		return nil, nil, archive.ErrFenced
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
	for _, key := range keys {
		o.known[key] = true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.owner(o) != o.owner {
		return nil, nil, archive.ErrFenced
	}
	return stored, nil, nil
}

func (s *shelf) owner(o *owned) uint64 { return o.lane.owner }

func (s *shelf) land(lane *shelfLane, one *insert, keys []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !lane.pending[one] {
		return // ended
	}
	delete(lane.pending, one)
	for _, key := range keys {
		s.stored[key]++
		lane.known[key] = true
	}
	close(one.landed)
}

// twice is the number of batches that are stored more than once.
func (s *shelf) twice() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, times := range s.stored {
		if times > 1 {
			n++
		}
	}
	return n
}

func (s *shelf) has(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stored[key] == 1
}
