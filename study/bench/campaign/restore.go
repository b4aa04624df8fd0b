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

// backupTime is how long a backup is tried: the server may just start. It is quiet when it
// has stored no row for quietTime.
const (
	backupTime = time.Minute
	quietTime  = 2 * time.Second
)

// restore takes a backup of the running server, ends the server, and restores it. Before, no
// agent reaches it, its own application has ended, and it has stored what had reached it:
// so nothing is acknowledged that is not in the backup, and nothing may be lost. What an
// agent does not know to be stored is delivered again.
func restore(ctx context.Context, w *world, h *host, draws *rand.Rand) (string, error) {
	if err := w.links("down"); err != nil {
		return "", err
	}
	h.application.hold(true)
	backup, old := filepath.Join(w.folder, "backup"), w.data()+".old"
	err := until(ctx, backupTime, func() error { return w.isQuiet(ctx) })
	if err == nil {
		err = until(ctx, backupTime, func() error { return w.manage(ctx, "backup", backup) })
	}
	if ctx.Err() != nil {
		h.application.hold(false)
		return "not any more", w.links("up")
	} else if err != nil {
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

// isQuiet returns an error while the server stores rows. Answers that it has sent arrive
// after the partition, even when it has been killed.
func (w *world) isQuiet(ctx context.Context) error {
	var counts [2]string
	for i := range counts {
		text, err := w.query(ctx, "SELECT count(*) AS n FROM "+stream)
		if err != nil {
			return err
		}
		counts[i] = string(text)
		if i == 0 {
			time.Sleep(quietTime)
		}
	}
	if counts[0] != counts[1] {
		return fmt.Errorf("the server stores rows: %s, then %s", counts[0], counts[1])
	}
	return nil
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
