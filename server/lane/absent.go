package lane

import (
	"context"
	"errors"
	"strconv"
	"time"

	"pillion.dev/bus"
	"pillion.dev/internal/every"
)

const (
	// presenceEvery is how often servers are asked whether they are connected; one that was not
	// absentMost times in a row has died. One that lost its node is connected to another sooner.
	presenceEvery = 400 * time.Millisecond
	absentMost    = 2
)

// lookOut removes the leases of servers that have died before they expire. It is safe for one
// that is alive all the same: its renewal fails, and what it has under way is ended before a
// lane is opened.
func (l *Lanes) lookOut() {
	every.Do(l.ctx, presenceEvery, func() {
		for _, member := range l.others() {
			present, err := l.present(member)
			if err == nil && l.hasDied(member, present) {
				l.log.Warn("server is not connected; its lanes are taken", "server", member)
				l.bury(member)
			}
		}
	})
}

// hasDied notes whether a server is present. One that has never answered may be starting.
func (l *Lanes) hasDied(member string, present bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, answered := l.absences[member]
	switch {
	case present:
		l.absences[member] = 0
	case answered:
		l.absences[member] = n + 1
	}
	return answered && !present && n+1 >= absentMost
}

// others are the living servers but this one.
func (l *Lanes) others() (others []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for member := range l.absences {
		if _, lives := l.members[member]; !lives {
			delete(l.absences, member)
		}
	}
	for member := range l.members {
		if member != l.options.ID {
			others = append(others, member)
		}
	}
	return others
}

func (l *Lanes) present(member string) (bool, error) {
	ctx, cancel := context.WithTimeout(l.ctx, presenceEvery)
	defer cancel()
	return l.options.Bus.Present(ctx, member)
}

// bury deletes the leases of a server, unless it has renewed them.
func (l *Lanes) bury(member string) {
	leases := map[string]uint64{}
	l.mu.Lock()
	if revision, lives := l.members[member]; lives {
		leases[memberPrefix+member] = revision
	}
	for lane, h := range l.holders {
		if h.id == member {
			leases[lanePrefix+strconv.Itoa(lane)] = h.revision
		}
	}
	l.mu.Unlock()
	for key, revision := range leases {
		err := l.options.KV.Delete(l.ctx, key, revision)
		if err != nil && !errors.Is(err, bus.ErrChanged) {
			l.log.Debug("end the lease of a server that died", "lease", key, "error", err)
		}
	}
}
