package store

import (
	"errors"
	"fmt"
	"path/filepath"

	"pillion.dev/internal/version"
)

// ErrNewer marks a folder that a later version of the program wrote.
var ErrNewer = errors.New("written by a later version")

const formatFile = "format.json"

// format says which version of a program wrote a folder.
type format struct {
	Format  int    `json:"format"`
	Version string `json:"version"` // for the error message
}

// CheckFormat returns ErrNewer if a folder has a later format than the caller knows, and
// otherwise records that the folder has the caller's format. A folder without a record
// precedes formats. What is the name of the folder's contents.
func CheckFormat(folder, what string, known int) error {
	path := filepath.Join(folder, formatFile)
	var found format
	if _, err := Load(path, &found); err != nil {
		return fmt.Errorf("check %s: %w", what, err)
	}
	if found.Format > known {
		return fmt.Errorf("check %s %s: %w: format %d of version %q, and this is version %q, which reads formats up to %d; "+
			"use that version or a later one, or a backup from before the upgrade",
			what, folder, ErrNewer, found.Format, found.Version, version.Short(), known)
	}
	if current := (format{known, version.Short()}); found != current {
		return Save(path, current, 0o600)
	}
	return nil
}
