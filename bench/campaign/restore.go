package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"pillion.dev/internal/netns"
)

// backupTime is how long a backup is tried: the server may just start.
const backupTime = time.Minute

// restore takes a backup of the running server, ends the server, and restores it. While no
// agent reaches it and its own application has ended, nothing is acknowledged after the backup,
// so nothing may be lost. What the server stored without an agent learning of it is
// delivered again.
func restore(ctx context.Context, w *world, h *host, draws *rand.Rand) (string, error) {
	if err := w.links("down"); err != nil {
		return "", err
	}
	h.application.hold(true)
	backup, old := filepath.Join(w.folder, "backup"), w.data()+".old"
	err := until(ctx, backupTime, func() error { return w.manage(ctx, "backup", backup) })
	if err != nil {
		return "", err
	}
	d := last(ctx, draws)
	h.program.hold(true)
	if err := onServer(w, "mv", w.data(), old); err != nil {
		return "", err
	}
	if err := w.manage(context.WithoutCancel(ctx), "restore", backup, "--previous", old); err != nil {
		return "", err
	}
	if err := onServer(w, "rm", "-rf", old, backup); err != nil {
		return "", err
	}
	h.program.hold(false)
	h.application.hold(false)
	return fmt.Sprintf("%v after it was taken", d), w.links("up")
}

// manage runs a command of pillion-server on its data directory.
func (w *world) manage(ctx context.Context, command string, more ...string) error {
	if command == "backup" {
		if err := os.RemoveAll(more[0]); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return onServer(w, append([]string{filepath.Join(w.settings.bin, "pillion-server"), command,
		"--config", filepath.Join(w.folder, "server.yaml"), "--data", w.data()}, more...)...)
}

// onServer runs a program in the server's namespace. The campaign itself does not touch the
// file system that it provides.
func onServer(w *world, words ...string) error {
	command := exec.Command(words[0], words[1:]...)
	var said strings.Builder
	command.Stdout, command.Stderr = &said, &said
	if err := netns.Do(w.server.namespace, command.Start); err != nil {
		return err
	}
	if err := command.Wait(); err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(words, " "), err, said.String())
	}
	return nil
}
