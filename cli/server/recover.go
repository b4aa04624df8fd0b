package server

import (
	"context"
	"errors"
	"fmt"
	"os"

	"pillion.dev/archive/duckdb"
	"pillion.dev/server/backup"
)

type recoverArchiveCmd struct {
	place
	To string `arg:"" help:"New file." type:"path"`
}

// errIncomplete is a recovered archive that lacks rows; it does not wrap errDiffers, whose hint is to repeat.
var errIncomplete = errors.New("not all rows could be read")

// Help describes the command.
func (recoverArchiveCmd) Help() string {
	return `Run it as the server's user, on the machine of the server, which must not run. It reads the archive stream by stream, and
around damage in ever smaller ranges, and prints how many rows of each stream it has copied. The archive is not changed.
Move the new file into its place, remove the old write-ahead log (archive.duckdb.wal), and start the server. If rows
were lost, the exit code is 1.

Example:

  pillion-server archive recover --data /var/lib/pillion-server /srv/recovered.duckdb`
}

// Run recovers the archive.
func (c *recoverArchiveCmd) Run(ctx context.Context) error {
	data, path, err := c.paths()
	if err != nil {
		return err
	}
	release, err := backup.Lock(data)
	if err != nil {
		return err
	}
	defer release()
	outcomes, walLost, err := duckdb.Recover(ctx, path, c.To)
	if err != nil {
		return fmt.Errorf("recover archive %s: %w", path, err)
	}
	if walLost > 0 {
		fmt.Printf("the write-ahead log is damaged: its last %d bytes are lost\n", walLost)
	}
	if err := compared(os.Stdout, outcomes); err != nil || walLost > 0 {
		return fmt.Errorf("recover archive %s: %w", path, errIncomplete)
	}
	return nil
}
