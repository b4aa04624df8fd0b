package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// Peers are started as their users start them, but write their files to memory, so that no
// disk is measured.

// tcpdump captures both ends, from which delay and loss can be computed afterwards.
type tcpdump struct {
	snap string // snapshot length, bytes, for UDP only and written at once; empty: captureBytes of all packets
}

const (
	captureBytes  = "96"
	captureBuffer = "16384" // KiB: the default of 2 MiB overflows at these rates
)

func (d tcpdump) start(ctx context.Context, t *testbed) (running, error) {
	return startPeer(ctx, []side{t.source, t.destination}, "listening on", func(s side, folder string) []string {
		words := []string{"tcpdump", "-i", s.device, "-s", cmp.Or(d.snap, captureBytes), "-B", captureBuffer, "-Z", "root",
			"-w", filepath.Join(folder, s.device+".pcap")}
		if d.snap != "" {
			words = append(words, "--packet-buffered", "udp")
		}
		return words
	})
}

// softflowd counts the packets of flows at both ends and exports them when they end, to a
// port where nothing listens.
type softflowd struct{}

func (softflowd) start(ctx context.Context, t *testbed) (running, error) {
	return startPeer(ctx, []side{t.source, t.destination}, "starting data collection", func(s side, folder string) []string {
		return []string{"softflowd", "-d", "-6", "-v", "9", "-i", s.device, "-n", "127.0.0.1:2055",
			"-c", filepath.Join(folder, s.device+".ctl"), "-p", filepath.Join(folder, s.device+".pid")}
	})
}

// ePPing measures round trips at one point, here the source.
type ePPing struct{ program string }

func (p ePPing) start(ctx context.Context, t *testbed) (running, error) {
	return startPeer(ctx, []side{t.source}, "Starting", func(s side, _ string) []string {
		return []string{p.program, "-i", s.device}
	})
}

// runningPeer is a peer's processes, one at each end.
type runningPeer struct {
	folder    string
	processes []*process
}

func startPeer(ctx context.Context, sides []side, ready string, command func(s side, folder string) []string) (running, error) {
	folder, err := memoryFolder()
	if err != nil {
		return nil, err
	}
	r := runningPeer{folder: folder}
	for _, s := range sides {
		words := command(s, folder)
		p, err := startProcess(ctx, s.namespace, ready, words[0], words[1:]...)
		if err != nil {
			_, stopErr := r.stop()
			return nil, errors.Join(err, stopErr)
		}
		r.processes = append(r.processes, p)
	}
	return r, nil
}

// memoryFolder makes a folder whose files are in memory.
func memoryFolder() (string, error) {
	const memory = "/dev/shm"
	var status unix.Statfs_t
	if err := unix.Statfs(memory, &status); err != nil {
		return "", fmt.Errorf("find a file system in memory: %s: %w", memory, err)
	}
	if status.Type != unix.TMPFS_MAGIC {
		return "", fmt.Errorf("find a file system in memory: %s is no tmpfs", memory)
	}
	folder, err := os.MkdirTemp(memory, namePrefix+strconv.Itoa(os.Getpid())+"-")
	if err != nil {
		return "", fmt.Errorf("make folder of a peer: %w", err)
	}
	return folder, nil
}

func (r runningPeer) cpuTime() time.Duration {
	var sum time.Duration
	for _, p := range r.processes {
		sum += p.cpuTime()
	}
	return sum
}

func (r runningPeer) stop() (account, error) {
	var a account
	var err error
	for _, p := range r.processes {
		_, stopErr := p.stop()
		err = errors.Join(err, stopErr)
		a.Missed += droppedByKernel(string(p.Errors.Bytes()))
	}
	return a, errors.Join(err, os.RemoveAll(r.folder))
}

var droppedLine = regexp.MustCompile(`(?m)^(\d+) packets? dropped by (?:kernel|interface)$`)

// droppedByKernel reads the number of packets dropped by the kernel from the last lines of tcpdump.
func droppedByKernel(text string) float64 {
	var sum float64
	for _, match := range droppedLine.FindAllStringSubmatch(text, -1) {
		n, _ := strconv.ParseFloat(match[1], 64) // the expression allows only digits
		sum += n
	}
	return sum
}
