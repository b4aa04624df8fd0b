package lane

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"pillion.dev/bus"
	"pillion.dev/internal/store"
)

// OwnersBucket assigns to each data directory the lane of its server's own rows: a lane that
// no other server takes, so that rows whose commit failed are stored once.
const OwnersBucket = "pillion-own-lanes"

const (
	idFile = "server.id"
	ownMax = 10_000
)

// OwnLane returns the lane of the server with that data directory: bus.Lanes or higher.
func OwnLane(ctx context.Context, owners *bus.KV, folder string) (int, error) {
	path := filepath.Join(folder, idFile)
	id, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		id = []byte(rand.Text() + "\n")
		err = store.Replace(path, id, 0o600)
	}
	if err != nil {
		return 0, fmt.Errorf("read the identity of this server: %w", err)
	}
	own := strings.TrimSpace(string(id))
	for lane := bus.Lanes; lane < ownMax; lane++ {
		key := lanePrefix + strconv.Itoa(lane)
		_, err := owners.Create(ctx, key, []byte(own))
		if err == nil {
			return lane, nil
		}
		if !errors.Is(err, bus.ErrChanged) {
			return 0, fmt.Errorf("assign a lane to this server: %w", err)
		}
		e, err := owners.Get(ctx, key)
		if err != nil {
			return 0, fmt.Errorf("assign a lane to this server: %w", err)
		}
		if string(e.Value) == own {
			return lane, nil
		}
	}
	return 0, fmt.Errorf("assign a lane to this server: all %d are assigned", ownMax-bus.Lanes)
}

// holdOwn keeps the lane of this server's own rows open until the context ends.
func (l *Lanes) holdOwn(ctx context.Context) {
	for ctx.Err() == nil {
		h, err := l.take(ctx, l.options.Own)
		if err != nil {
			if ctx.Err() == nil && !errors.Is(err, bus.ErrChanged) {
				l.log.Warn("take the lane of this server's own rows", "lane", l.options.Own, "error", err)
			}
			pause(ctx, checks)
			continue
		}
		l.options.Ingest.UseLane(h.ctx, h.lane, h.lease.Held, h.lose)
		l.setOwn(true)
		select {
		case <-ctx.Done():
		case <-h.ctx.Done():
			l.log.Warn("lane of this server's own rows lost", "lane", l.options.Own, "error", context.Cause(h.ctx))
		}
		l.setOwn(false)
		l.options.Ingest.LeaveLane(errEnded)
		h.end(l.log)
	}
}

func (l *Lanes) setOwn(open bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ownOpen = open
}
