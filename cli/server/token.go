package server

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"pillion.dev/server/authority"
)

var errNoToken = errors.New("no such token in the data directory")

type tokenCmd struct {
	place
	Token string `arg:"" enum:"join,admin" help:"join, with which hosts join for seven days, or admin, that of an administrator."`
}

// Help describes the command.
func (tokenCmd) Help() string {
	return `Run it on the server's machine, as root or as the server's user; in a container, whose image has no other
program that reads files, by the runtime's exec.

Example:

  podman exec pillion-server pillion-server token join`
}

// Run prints the token.
func (c *tokenCmd) Run() error {
	token, err := c.read()
	if err == nil {
		fmt.Println(token)
	}
	return err
}

func (c *tokenCmd) read() (string, error) {
	folder, _, err := c.paths()
	if err != nil {
		return "", err
	}
	path := filepath.Join(folder, authority.AdminFile)
	if c.Token == "join" {
		path = filepath.Join(folder, authority.JoinFile)
	}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w: %w", errNoToken, err)
	}
	if err != nil {
		return "", fmt.Errorf("read token: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}
