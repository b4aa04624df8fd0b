package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"pillion.dev/internal/free"
	"pillion.dev/lab"
	"pillion.dev/study/bench/fleet"
)

// senderHost is the host of the lab on which the simulated agents run.
const senderHost = "m"

// world is the fleet and the simulated agents.
type world struct {
	settings *settings
	lab      *lab.Lab
	folder   string // of the agents' identities
	draws    *rand.Rand
	kills    map[string]int // by kind of program
	starts   map[string]int // after kills, or after a program ended by itself
	senders  *exec.Cmd
	input    io.Closer

	mu    sync.Mutex
	last  report
	ended chan struct{} // the senders' output
}

// newWorld starts the fleet. Its agents are the simulated ones.
func newWorld(ctx context.Context, s *settings) (*world, error) {
	spec, err := lab.FleetExample()
	if err != nil {
		return nil, err
	}
	spec.Name = "ledger"
	if spec.Service.Forward, err = free.Find(); err != nil {
		return nil, err
	}
	spec.Service.Agents = nil
	agent, err := filepath.Abs(filepath.Join(s.bin, "pillion-agent"))
	if err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp("", "pillion-ledger-")
	if err != nil {
		return nil, err
	}
	up, err := lab.Up(ctx, spec, lab.Options{Agent: agent})
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(folder))
	}
	return &world{settings: s, lab: up, folder: folder, draws: rand.New(rand.NewPCG(s.seed, 1)), kills: map[string]int{}, starts: map[string]int{}, ended: make(chan struct{})}, nil
}

// close ends the senders and removes the fleet.
func (w *world) close() error {
	if w.senders != nil && w.senders.ProcessState == nil {
		_ = w.senders.Process.Kill()
		_ = w.senders.Wait() // killed
	}
	err := os.RemoveAll(w.folder)
	if !w.settings.keep {
		err = errors.Join(err, lab.Down(context.Background(), w.lab.Spec.Name))
	}
	return err
}

// startSenders starts the simulated agents and waits until rows of all are acknowledged.
func (w *world) startSenders(ctx context.Context) error {
	servers, err := w.lab.Servers()
	if err != nil {
		return err
	}
	token, err := fleet.ReadSecret(filepath.Join(filepath.Dir(w.lab.TokenFile()), "join.token"))
	if err != nil {
		return err
	}
	text, err := json.Marshal(senders{
		Joining: fleet.Joining{Server: strings.Join(servers, ","), Token: token, Folder: w.folder},
		Agents:  w.settings.senders, Rows: w.settings.rows, Every: w.settings.every,
	})
	if err != nil {
		return err
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	w.senders = exec.Command(program)
	w.senders.Env = append(os.Environ(), senderVariable+"="+string(text))
	w.senders.Stderr = os.Stderr
	if w.input, err = w.senders.StdinPipe(); err != nil {
		return err
	}
	output, err := w.senders.StdoutPipe()
	if err != nil {
		return err
	}
	if err := w.lab.Start(senderHost, w.senders); err != nil {
		return fmt.Errorf("start senders: %w", err)
	}
	go w.read(output)
	return w.until(ctx, time.Minute, "rows of all agents are acknowledged", func(r report) bool {
		for _, n := range r.Acknowledged {
			if n == 0 {
				return false
			}
		}
		return len(r.Acknowledged) == w.settings.senders
	})
}

// read keeps the last report.
func (w *world) read(output io.Reader) {
	defer close(w.ended)
	for lines := bufio.NewScanner(output); lines.Scan(); {
		var r report
		if json.Unmarshal(lines.Bytes(), &r) == nil {
			w.mu.Lock()
			w.last = r
			w.mu.Unlock()
		}
	}
}

// until waits until a report has what is asked for.
func (w *world) until(ctx context.Context, limit time.Duration, what string, has func(report) bool) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	ticks := time.NewTicker(100 * time.Millisecond)
	defer ticks.Stop()
	for {
		w.mu.Lock()
		last := w.last
		w.mu.Unlock()
		if has(last) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait until %s: %w: %+v", what, ctx.Err(), last)
		case <-w.ended:
			w.mu.Lock()
			last := w.last
			w.mu.Unlock()
			if has(last) { // their last report
				return nil
			}
			return fmt.Errorf("wait until %s: the senders ended", what)
		case <-ticks.C:
		}
	}
}

// balance is what the archive has, compared with what was sent.
type balance struct {
	sent, stored, lost, twice int64
	faults                    []string
}

func (w *world) balance(ctx context.Context, final report) (b balance, err error) {
	for name, sent := range final.Sent {
		b.sent += sent
		rows, err := w.number(ctx, fmt.Sprintf("SELECT count(*) FROM ledger WHERE agent = '%s'", name))
		if err != nil {
			return b, err
		}
		numbers, err := w.number(ctx, fmt.Sprintf("SELECT count(DISTINCT number) FROM ledger WHERE agent = '%s' AND number BETWEEN 1 AND %d", name, sent))
		if err != nil {
			return b, err
		}
		b.stored, b.lost, b.twice = b.stored+rows, b.lost+sent-numbers, b.twice+rows-numbers
		if rows != sent || numbers != sent {
			b.faults = append(b.faults, fmt.Sprintf("%s sent %d rows, %d are stored, %d of them different", name, sent, rows, numbers))
		}
	}
	return b, nil
}

// number asks the first server that is up for a figure.
func (w *world) number(ctx context.Context, sql string) (int64, error) {
	server := fleet.Server{Folder: filepath.Dir(w.lab.TokenFile()), Address: strings.TrimPrefix(w.lab.ServiceURL(), "http://")}
	client, err := server.Client()
	if err != nil {
		return 0, err
	}
	defer client.Close()
	return fleet.Number(ctx, client, sql)
}
