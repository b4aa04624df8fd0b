package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"pillion.dev/bus"
	"pillion.dev/internal/every"
	local "pillion.dev/internal/store"
	"pillion.dev/measure/application"
	"pillion.dev/server/alarm"
	"pillion.dev/server/authority"
	"pillion.dev/server/control"
	"pillion.dev/server/store"
)

// collections are the state that the servers of a fleet share.
var collections = slices.Concat(authority.Collections, control.Collections, alarm.Collections, []string{application.Collection})

// ErrState is a state that the state of a fleet contradicts.
var ErrState = errors.New("the fleet has another state")

// openBucket opens the state of a fleet.
func openBucket(ctx context.Context, b *bus.Server, own *authority.Authority, folder string) (*bus.KV, store.Store, error) {
	bucket, err := b.KV(ctx, store.BucketName, bus.KVOptions{})
	if err != nil {
		return nil, nil, err
	}
	secret, err := own.Secret("state of a fleet")
	if err != nil {
		return nil, nil, err
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, nil, fmt.Errorf("open the fleet's state: %w", err)
	}
	if folder, err = filepath.Abs(folder); err != nil {
		return nil, nil, fmt.Errorf("open the fleet's state: %w", err)
	}
	shared, err := store.NewKV(ctx, bucket, store.Identity{Fingerprint: own.Fingerprint(), Secret: secret, Host: host, Folder: folder})
	return bucket, shared, err
}

// refuseFiles returns an error if this server has a state in its files and the fleet has none: it
// would lose its agents, sessions and tokens.
func (s *server) refuseFiles(ctx context.Context, shared store.Store) error {
	own, err := s.store.Load(ctx, authority.Collections[0])
	if err != nil || len(own) == 0 {
		return err
	}
	theirs, err := shared.Load(ctx, authority.Collections[0])
	if err == nil && len(theirs) == 0 {
		err = fmt.Errorf("%w: it has none, and %s has a single server's state: take it over with "+
			"'pillion-server state import --data %s', or move its files *.json away", ErrState, s.config.Folder, s.config.Folder)
	}
	return err
}

const (
	// purgeEvery is how often what is left of deleted items is removed, purgeAfter how old it is
	// then: no server is without a connection for so long and continues to follow.
	purgeEvery = time.Hour
	purgeAfter = 24 * time.Hour
)

// purge removes what is left of deleted items, until the context ends.
func purge(ctx context.Context, bucket *bus.KV, doubted func() string, log *slog.Logger) {
	every.Do(ctx, purgeEvery, func() {
		if doubted() != "" { // their age is that by the wall clock
			return
		}
		if err := bucket.Purge(ctx, purgeAfter); err != nil && ctx.Err() == nil {
			log.Warn("remove what is left of deleted items", "error", err)
		}
	})
}

// ExportState writes the state of the fleet of which the configured server is a member into a new or
// empty folder, as the data directory of a server without rows. It returns the number of items.
func ExportState(ctx context.Context, config Config, to string, log *slog.Logger) (items int, err error) {
	config, err = config.Complete()
	if err == nil {
		err = exportState(ctx, config, to, log, &items)
	}
	if err != nil {
		return 0, fmt.Errorf("export state to %s: %w", to, err)
	}
	return items, nil
}

func exportState(ctx context.Context, config Config, to string, log *slog.Logger, items *int) error {
	if entries, err := os.ReadDir(to); err == nil && len(entries) > 0 {
		return errors.New("the directory is not empty")
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return withState(ctx, config, log, func(shared store.Store) error {
		key := filepath.Join("authority", "authority.pem")
		text, err := os.ReadFile(filepath.Join(config.Folder, key))
		if err == nil {
			err = os.MkdirAll(filepath.Join(to, filepath.Dir(key)), 0o700)
		}
		if err == nil {
			err = local.Replace(filepath.Join(to, key), text, 0o600)
		}
		if err == nil {
			err = local.CheckFormat(to, "data directory", folderFormat)
		}
		if err != nil {
			return err
		}
		files := store.NewFiles(to)
		for _, collection := range collections {
			kept, err := shared.Load(ctx, collection)
			if err != nil {
				return err
			}
			if len(kept) == 0 {
				continue
			}
			if err := files.Write(ctx, collection, kept); err != nil {
				return err
			}
			*items += len(kept)
		}
		return nil
	})
}

// ImportState copies the state in the data directory of a server, which does not run, to a fleet,
// which has none yet. Repeated after a failure, it continues. It returns the number of items.
func ImportState(ctx context.Context, config Config, log *slog.Logger) (items int, err error) {
	config, err = config.Complete()
	if err == nil {
		err = importState(ctx, config, log, &items)
	}
	if err != nil {
		return 0, fmt.Errorf("import state of %s: %w", config.Folder, err)
	}
	return items, nil
}

func importState(ctx context.Context, config Config, log *slog.Logger, items *int) error {
	if _, err := os.Stat(filepath.Join(config.Folder, "tokens.json")); err != nil {
		return err
	}
	s := &server{config: config, log: log}
	if err := s.lockFolder(); err != nil {
		return err
	}
	defer s.lock.Close()
	return withState(ctx, config, log, func(shared store.Store) error {
		files := store.NewFiles(config.Folder)
		missing := map[string]map[string][]byte{}
		for _, collection := range collections {
			own, err := files.Load(ctx, collection)
			if err != nil {
				return err
			}
			theirs, err := shared.Load(ctx, collection)
			if err != nil {
				return err
			}
			for key, item := range theirs {
				if !bytes.Equal(own[key], item) {
					return fmt.Errorf("%w: %s of %s", ErrState, key, collection)
				}
				delete(own, key)
			}
			*items += len(own)
			missing[collection] = own
		}
		for _, collection := range collections { // tokens first: a server that starts meanwhile creates none
			if err := shared.Write(ctx, collection, missing[collection]); err != nil {
				return err
			}
		}
		return nil
	})
}

// withState connects to the cluster as the configured server.
func withState(ctx context.Context, config Config, log *slog.Logger, do func(store.Store) error) error {
	if config.NATS == "" {
		return fmt.Errorf("%w: the state is in files of the data directory: the configuration names no NATS cluster", ErrConfig)
	}
	if _, err := os.Stat(filepath.Join(config.Folder, "authority", "authority.pem")); err != nil {
		return err
	}
	own, err := authority.OpenKeys(config.Folder, authority.Options{Hosts: config.Hosts, Cluster: true})
	if err != nil {
		return err
	}
	b, err := bus.ConnectServer(ctx, bus.ServerOptions{URL: config.NATS, TLS: own.ClientTLS(), Log: log})
	if err != nil {
		return err
	}
	defer b.Close()
	_, shared, err := openBucket(ctx, b, own, config.Folder)
	if err != nil {
		return err
	}
	return do(shared)
}
