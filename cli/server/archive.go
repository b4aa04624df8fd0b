package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"text/tabwriter"
	"time"

	"pillion.dev/archive"
	"pillion.dev/archive/transfer"
	"pillion.dev/internal/progress"
	"pillion.dev/internal/quantity"
	"pillion.dev/server"
)

type archiveCmd struct {
	Copy    copyArchiveCmd    `cmd:"" help:"Copy the archive of a single server into that of a fleet."`
	Recover recoverArchiveCmd `cmd:"" help:"Copy what can be read of a damaged archive into a new file."`
}

type copyArchiveCmd struct {
	place
	To             string `help:"URL of the archive that receives the copy." required:"" placeholder:"URL"`
	Alone          bool   `help:"The new archive is used by one server that has no external NATS cluster."`
	ServersStopped bool   `help:"No server uses the new archive, although one has done so: copy delivery states nevertheless."`
	DryRun         bool   `help:"Print what would be copied, and do not connect to the new archive."`
}

// errDiffers is a copy that has not the rows of the old archive.
var errDiffers = errors.New("the archives differ")

// Help describes the command.
func (copyArchiveCmd) Help() string {
	return `Run it as the server's user, on the machine of the old server, which must not run. It copies the streams, their
retention, who created or extended them, the state by which each batch is stored once, and all rows with the times of
their arrival. The data directory, which may be a backup, is not changed.

Delivery states are copied first. As soon as the command prints "servers may start", start the servers of the fleet:
batches that the old server has acknowledged are not stored again. Rows are copied meanwhile; sums of flows over long
ranges have them once they are rolled up. If it was interrupted, repeat the command: it continues, and each row is copied
once. Repeated after the old server has stored more, it copies what has arrived since; do so only before
servers use the new archive.

At the end it compares the number of rows of each stream; if they differ, the exit code is 1.

Example:

  pillion-server archive copy --data /var/lib/pillion-server --to 'clickhouse://pillion@ch1:9000,ch2:9000/pillion?cluster=fleet'`
}

// Run copies the archive.
func (c *copyArchiveCmd) Run(ctx context.Context) error {
	run := runCmd{Config: c.Config, Data: c.Data}
	config, err := run.settings()
	if err != nil {
		return err
	}
	begun := time.Now()
	bar := progress.New(os.Stderr, "copy archive", progress.Count("row"))
	defer bar.End()
	options := server.Copy{To: c.To, Alone: c.Alone, Stopped: c.ServersStopped}
	if c.DryRun {
		options.To, options.Found = "", func(streams []archive.Stream, states int) { found(os.Stdout, streams, states) }
	}
	options.Ready = func(states int) {
		bar.Print(os.Stderr, fmt.Sprintf("pillion-server: copied %s; servers may start", quantity.Count(states, "delivery state")))
	}
	options.Progress = func(p transfer.Progress) {
		if bar == nil {
			copied(os.Stderr, p, time.Since(begun))
		}
		bar.Set(p.Done, p.Total, p.Stream)
	}
	options.Failed = func(err error) { bar.Print(os.Stderr, fmt.Sprintf("pillion-server: %v; retrying", err)) }
	outcomes, err := server.CopyArchive(ctx, config, options)
	bar.End()
	if err != nil || c.DryRun {
		return err
	}
	if err := compared(os.Stdout, outcomes); err != nil {
		return fmt.Errorf("copy archive: %w", err)
	}
	return nil
}

// found lists what would be copied.
func found(out io.Writer, streams []archive.Stream, states int) {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "stream\trows\tfirst\tlast")
	for _, s := range streams {
		first, last := "", ""
		if s.Rows > 0 {
			first, last = s.First.Format(time.RFC3339), s.Last.Format(time.RFC3339)
		}
		fmt.Fprintf(table, "%s\t%d\t%s\t%s\n", s.Schema.Name, s.Rows, first, last)
	}
	table.Flush()
	fmt.Fprintf(out, "%s, %s\n", quantity.Count(len(streams), "stream"), quantity.Count(states, "delivery state"))
}

// copied prints the progress to a log.
func copied(out io.Writer, p transfer.Progress, since time.Duration) {
	rate := float64(p.New) / since.Seconds()
	left := ""
	if rate > 0 {
		left = fmt.Sprintf(", %v left", (time.Duration(float64(p.Total-p.Done) / rate * float64(time.Second))).Round(time.Second))
	}
	fmt.Fprintf(out, "pillion-server: %s: %d of %d rows (%.0f%%), %.0f rows/s%s\n", p.Stream, p.Done, p.Total, 100*float64(p.Done)/float64(max(p.Total, 1)), rate, left)
}

// compared prints the rows of each stream in both archives.
func compared(out io.Writer, outcomes []transfer.Outcome) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "stream\told archive\tcopied\t")
	different := 0
	for _, o := range outcomes {
		remark := ""
		if o.Removed > 0 {
			remark = fmt.Sprintf("%d removed from the old archive since they were copied", o.Removed)
		}
		if !o.Complete() {
			remark = "differs"
			different++
		}
		fmt.Fprintf(table, "%s\t%d\t%d\t%s\n", o.Stream, o.Rows, o.Copied, remark)
	}
	table.Flush()
	if different > 0 {
		return fmt.Errorf("%w in %s of %d", errDiffers, quantity.Count(different, "stream"), len(outcomes))
	}
	return nil
}
