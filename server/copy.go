package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"pillion.dev/archive"
	"pillion.dev/archive/transfer"
	"pillion.dev/bus"
	"pillion.dev/server/authority"
	"pillion.dev/server/backup"
)

// Copy says where CopyArchive copies rows.
type Copy struct {
	// To is the URL of the archive that receives them; empty: they are only counted.
	To string
	// Alone: the new archive belongs to a single server, not to a fleet.
	Alone bool
	// Stopped: no server uses the new archive.
	Stopped bool
	// Found is called with the streams of the old archive and the number of delivery states.
	Found func(streams []archive.Stream, states int)
	// Ready, Progress and Failed are as in transfer.Options.
	Ready    func(states int)
	Progress func(transfer.Progress)
	Failed   func(error)
}

// patience is how long the new archive may be away.
const patience = 10 * time.Minute

// CopyArchive copies the rows and the delivery states of the archive in the data directory of a server,
// which does not run, into another archive. Repeated after a failure, it continues.
func CopyArchive(ctx context.Context, config Config, c Copy) ([]transfer.Outcome, error) {
	config, err := config.Complete()
	if err != nil {
		return nil, err
	}
	outcomes, err := copyArchive(ctx, config, c)
	if err != nil {
		return outcomes, fmt.Errorf("copy archive of %s: %w", config.Folder, err)
	}
	return outcomes, nil
}

func copyArchive(ctx context.Context, config Config, c Copy) (outcomes []transfer.Outcome, err error) {
	location, embedded := strings.CutPrefix(config.Archive, DefaultArchive)
	if !embedded {
		return nil, fmt.Errorf("%w: the archive %s is not in a file", ErrConfig, config.Archive)
	}
	path := cmp.Or(location, filepath.Join(config.Folder, backup.ArchiveFile))
	if _, err := os.Stat(path); err != nil {
		return nil, err
	}
	source, err := authority.ReadFingerprint(config.Folder)
	if err != nil {
		return nil, fmt.Errorf("read whose archive it is: %w", err)
	}
	release, err := backup.Lock(config.Folder)
	if err != nil {
		return nil, err
	}
	defer release()
	from, err := openSource(config)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	if c.Found != nil {
		streams, err := from.Streams(ctx)
		if err != nil {
			return nil, err
		}
		c.Found(streams, len(from.Deliveries()))
	}
	if c.To == "" {
		return nil, nil
	}
	to, err := archive.Open(c.To, archive.Options{Quota: config.Quotas.archive()})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	target, ok := to.(transfer.Target)
	if !ok {
		return nil, fmt.Errorf("%w: archive %s cannot receive a copy", ErrConfig, c.To)
	}
	options := transfer.Options{Source: source, Stopped: c.Stopped, Ready: c.Ready, Progress: c.Progress, Failed: c.Failed, Patience: patience}
	if !c.Alone {
		options.Lane = func(agent string) uint64 { return uint64(bus.LaneOf(agent)) }
	}
	return transfer.Copy(ctx, from, target, options)
}

// openSource opens the archive of a data directory that is locked.
func openSource(config Config) (transfer.Source, error) {
	opened, err := archive.Open(config.Archive, archive.Options{Folder: config.Folder, Memory: int64(config.MemoryBytes), Quota: config.Quotas.archive()})
	if err != nil {
		return nil, err
	}
	from, ok := opened.(transfer.Source)
	if !ok {
		return nil, errors.Join(fmt.Errorf("%w: archive %s cannot be copied", ErrConfig, config.Archive), opened.Close())
	}
	return from, nil
}
