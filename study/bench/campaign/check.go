package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"
)

// settleTime is how long rows may take to arrive once no fault is active.
const settleTime = 3 * time.Minute

// check compares the ledger, as it is now, with the archive: every acknowledged row is in
// it exactly once. At least some rows of every run must be acknowledged.
func (w *world) check(ctx context.Context, least int64) error {
	runs := w.ledger.copy()
	if len(runs) < len(w.hosts()) {
		return fmt.Errorf("%d of %d applications have begun", len(runs), len(w.hosts()))
	}
	for run, a := range runs {
		if a.stored < least {
			return fmt.Errorf("%s: %d rows sent, %d acknowledged", run, a.sent, a.stored)
		}
	}
	b, err := w.balance(ctx, runs)
	if err == nil && len(b.faults) > 0 {
		err = errors.New(strings.Join(b.faults, "; "))
	}
	return err
}

func (w *world) balance(ctx context.Context, runs map[string]account) (balance, error) {
	text, err := w.query(ctx, archivedRows)
	if err != nil {
		return balance{}, err
	}
	found, err := parseArchived(text)
	if err != nil {
		return balance{}, err
	}
	return balanceOf(runs, found), nil
}

// settle waits until the archive has everything that was acknowledged before.
func (w *world) settle(ctx context.Context) (balance, error) {
	runs := w.ledger.copy()
	var b balance
	err := until(ctx, settleTime, func() (err error) {
		b, err = w.balance(ctx, runs)
		if err == nil && len(b.faults) > 0 {
			err = errors.New(strings.Join(b.faults, "; "))
		}
		return err
	})
	return b, err
}

// finish lets the applications end in order and checks that all they sent arrived.
func (w *world) finish(ctx context.Context) (balance, error) {
	for _, h := range w.hosts() {
		h.application.finish()
	}
	if err := until(ctx, closeTime, func() error {
		for _, h := range w.hosts() {
			if h.application.running() {
				return fmt.Errorf("%s: its rows are not acknowledged", h.application.name)
			}
		}
		return nil
	}); err != nil {
		return balance{}, err
	}
	b, err := w.settle(ctx)
	if err != nil {
		return b, err
	}
	return b, w.others(ctx)
}

// others checks rows that have no ledger: the rows about the agents themselves. None is there
// twice, and no spool dropped or rejected any.
func (w *world) others(ctx context.Context) error {
	for what, sql := range map[string]string{
		"rows of agents that are there twice": "SELECT count(*) AS n FROM (SELECT 1 FROM host GROUP BY agent, time HAVING count(*) > 1)",
		"rows that spools dropped":            "SELECT coalesce(max(dropped_rows), 0)::BIGINT AS n FROM agent",
	} {
		text, err := w.query(ctx, sql)
		if err != nil {
			return err
		}
		if !strings.Contains(strings.ReplaceAll(string(text), " ", ""), `"n":0`) {
			return fmt.Errorf("%s: %s", what, strings.TrimSpace(string(text)))
		}
	}
	for _, h := range w.agents {
		rejected, err := filepath.Glob(filepath.Join(h.disk.Folder, "spool*", "rejected", "*"))
		if err != nil || len(rejected) > 0 {
			return fmt.Errorf("%s: the server rejected batches: %v, %v", h.name, rejected, err)
		}
	}
	return nil
}
