package duckdb

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// backupSuffix ends the name of the folder beside the archive's file, the only one where
// DuckDB may create other files.
const backupSuffix = ".backup"

// Backup writes a copy of the archive, as of one moment, to a file in a folder beside the archive, which the caller
// removes. Batches are stored meanwhile: the copy has the rows and the delivery states of one transaction.
func (a *Archive) Backup(ctx context.Context) (path string, err error) {
	folder := a.path + backupSuffix
	path = filepath.Join(folder, fileName)
	if err := a.copyTo(ctx, folder, path); err != nil {
		err = errors.Join(err, os.RemoveAll(folder)) // it may have the size of the archive
		return "", fmt.Errorf("back up archive %s: %w", a.path, err)
	}
	return path, nil
}

func (a *Archive) copyTo(ctx context.Context, folder, path string) error {
	done, err := a.enter(ctx)
	if err != nil {
		return err
	}
	defer done()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(a.live, cancel)()
	a.writing.Lock()
	err = a.saveRetention(ctx)
	a.writing.Unlock()
	if err != nil {
		return err
	}
	c, err := connect(a.db)
	if err != nil {
		return err
	}
	defer c.close()
	// Attaching and detaching are short; a copy that stays attached would block all later backups.
	whole := context.WithoutCancel(ctx)
	if err := c.exec(whole, detachCopy); err != nil { // of a backup that failed to
		return a.judge(err)
	}
	if err := os.RemoveAll(folder); err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	if err := c.exec(whole, "ATTACH '"+strings.ReplaceAll(path, "'", "''")+"' AS backup_copy"); err != nil {
		return a.judge(err)
	}
	err = c.inTransaction(ctx, func() error { return c.copyTables(ctx) })
	// Detaching works its log into the file.
	if detached := c.exec(whole, detachCopy); err == nil {
		err = detached
	}
	if err != nil {
		return because(ctx, a.judge(err))
	}
	return nil
}

const detachCopy = "DETACH DATABASE IF EXISTS backup_copy"

// copyTables copies all tables, which have neither constraints nor indexes, to the attached
// database. (COPY FROM DATABASE changes a setting, and those are locked.)
func (c *connection) copyTables(ctx context.Context) error {
	tables, err := c.tables(ctx, "current_database()")
	for _, t := range tables {
		for _, sql := range []string{
			"CREATE SCHEMA IF NOT EXISTS backup_copy." + quoted(t.schema), "CREATE TABLE backup_copy." + t.sql() + " AS FROM " + t.sql(),
		} {
			if err == nil {
				err = c.exec(ctx, sql)
			}
		}
	}
	return err
}
