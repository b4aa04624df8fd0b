package server

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"pillion.dev/internal/progress"
	"pillion.dev/internal/quantity"
	"pillion.dev/server"
	"pillion.dev/server/authority"
	"pillion.dev/server/backup"
)

// place is where a server has its data.
type place struct {
	Config string `help:"YAML file of the server." type:"existingfile" placeholder:"FILE"`
	Data   string `help:"Data directory; default: ${folder}." placeholder:"DIR" env:"PILLION_DATA"`
}

// paths returns the data directory and the file of the archive.
func (p *place) paths() (data, archive string, err error) {
	var config server.Config
	if p.Config != "" {
		if config, err = server.ReadConfig(p.Config); err != nil {
			return "", "", err
		}
	}
	data = cmp.Or(p.Data, config.Folder, server.DefaultFolder)
	archive = filepath.Join(data, backup.ArchiveFile)
	if path, ok := strings.CutPrefix(config.Archive, server.DefaultArchive); ok && path != "" {
		archive = path
	}
	return data, archive, nil
}

type backupCmd struct {
	place
	Destination string `arg:"" help:"New or empty directory." type:"path"`
}

// Help describes the command.
func (backupCmd) Help() string {
	return `Run it as root or as the server's user, on the server's machine. A running server continues to store rows;
the backup has those of one moment, with the state of delivery that belongs to them. The data directory
needs space for a copy of the archive meanwhile. The backup contains the key of the certificate authority:
keep it as secret as the data directory.

Example:

  pillion-server backup /srv/backup/pillion-monday`
}

// Run makes a backup.
func (c *backupCmd) Run(ctx context.Context) error {
	data, archive, err := c.paths()
	if err != nil {
		return err
	}
	begun := time.Now()
	bar := progress.New(os.Stderr, "backup", progress.Bytes)
	m, err := backup.Take(ctx, data, archive, c.Destination, progressTo(os.Stderr, bar))
	bar.End()
	if err != nil {
		return err
	}
	fmt.Printf("backed up %s to %s: %s, %s in %v\n", data, c.Destination,
		quantity.Count(int64(len(m.Files)), "file"), quantity.FormatBytes(m.Bytes()), time.Since(begun).Round(100*time.Millisecond))
	return nil
}

type restoreCmd struct {
	place
	Backup   string `arg:"" help:"Directory of the backup." type:"existingdir"`
	Previous string `help:"Data directory that the restored one replaces, if it still exists: what was revoked since the backup is taken from it." type:"existingdir" placeholder:"DIR"`
}

// Help describes the command.
func (restoreCmd) Help() string {
	return `Every file is compared with its checksum. The data directory must be new or empty: move the old one away,
and name it with --previous. Agents reconnect by themselves.

Examples:

  mv /var/lib/pillion-server /var/lib/pillion-server.old
  pillion-server restore /srv/backup/pillion-monday --previous /var/lib/pillion-server.old`
}

// Run restores a backup.
func (c *restoreCmd) Run() error {
	data, archive, err := c.paths()
	if err != nil {
		return err
	}
	bar := progress.New(os.Stderr, "restore", progress.Bytes)
	m, err := backup.Restore(c.Backup, data, archive, progressTo(os.Stderr, bar))
	bar.End()
	if err != nil {
		return err
	}
	fmt.Printf("restored %s from the backup of %s: %s, %s\n", data, m.Time.Local().Format(time.DateTime),
		quantity.Count(int64(len(m.Files)), "file"), quantity.FormatBytes(m.Bytes()))
	if c.Previous == "" {
		fmt.Println("what was revoked since then will be learned from agents as they connect; check pillion agents and pillion token list")
		return nil
	}
	added, path, err := authority.MergePrevious(data, c.Previous)
	if err == nil && path != "" {
		err = backup.GiveAway(data, path)
	}
	if err != nil {
		return err
	}
	fmt.Printf("took %s from %s\n", quantity.Count(int64(added), "revocation"), c.Previous)
	return nil
}

// progressTo shows progress as a bar, or in lines if there is no terminal.
func progressTo(out io.Writer, bar *progress.Bar) backup.Progress {
	return func(what string, done, total int64) {
		if bar != nil {
			bar.Set(done, total, what)
			return
		}
		share := ""
		if total > 0 {
			share = fmt.Sprintf(" of %s", quantity.FormatBytes(total))
		}
		fmt.Fprintf(out, "pillion-server: %s: %s%s\n", what, quantity.FormatBytes(done), share)
	}
}
