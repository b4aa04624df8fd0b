package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"pillion.dev/server/store"
)

// errSave is a catalog that could not be saved now.
var errSave = errors.New("save OML domains")

// saveTime limits a write.
const saveTime = 10 * time.Second

// Reload replaces the known domains by the store's.
func (k *Backend) Reload(ctx context.Context) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.load(ctx)
}

// load is Reload. The caller holds the lock.
func (k *Backend) load(ctx context.Context) error {
	items, err := k.store.Load(ctx, collection)
	if err != nil {
		return err
	}
	return k.catalog.load(items)
}

// Follow applies what other servers write to the domains, until the context ends.
func (k *Backend) Follow(ctx context.Context) error {
	return k.store.Follow(ctx, collection, &k.mu, func(key string, item []byte) {
		if err := k.catalog.set(key, item, k.catalog.Domains); err != nil {
			k.log.Warn("follow OML domains", "error", err)
		}
	})
}

// save writes what differs from the store. The caller holds the lock.
func (k *Backend) save() error {
	items, err := k.catalog.items()
	if err == nil {
		err = k.write(items)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errSave, err)
	}
	clear(k.catalog.changed)
	return nil
}

func (k *Backend) write(items map[string][]byte) error {
	ctx, cancel := context.WithTimeout(context.Background(), saveTime)
	defer cancel()
	return k.store.Write(ctx, collection, items)
}

// repeat does something again as long as another server was faster to write what it concerns. The
// caller holds the lock.
func (k *Backend) repeat(do func() error) error {
	return store.Repeat(do, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), saveTime)
		defer cancel()
		if err := k.load(ctx); err != nil {
			return fmt.Errorf("%w: %w", errSave, err)
		}
		return nil
	})
}

// claim reserves the stream of a new table, so that no other server gives it to another one.
func (k *Backend) claim(domain string, t entry) error {
	wanted := claim{domain, t.Name}
	if held, found := k.catalog.claims[t.Stream]; !k.store.Shared() || found && held == wanted {
		return nil
	}
	text, err := json.Marshal(wanted)
	if err == nil {
		err = k.write(map[string][]byte{store.Key(streamsSection, t.Stream): text})
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errSave, err)
	}
	k.catalog.claims[t.Stream] = wanted
	return nil
}
