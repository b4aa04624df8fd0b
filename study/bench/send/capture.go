package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"pillion.dev/internal/netns"
	"pillion.dev/internal/pcap"
)

// capture is a running tcpdump.
type capture struct {
	command *exec.Cmd
	folder  string
}

// startCapture has tcpdump record the beginnings of packets in a namespace.
func startCapture(ctx context.Context, namespace, device, filter string) (*capture, error) {
	folder, err := os.MkdirTemp("", "pillion-capture-")
	if err != nil {
		return nil, err
	}
	c := &capture{folder: folder}
	c.command = exec.CommandContext(ctx, "tcpdump", "-n", "-i", device, "--nano", "--immediate-mode", "-Z", "root", "-s", "64", "-B", "16384", "-w", c.file(), filter)
	messages, err := c.command.StderrPipe()
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(folder))
	}
	if err := netns.Do(namespace, c.command.Start); err != nil {
		return nil, errors.Join(fmt.Errorf("start tcpdump: %w", err), os.RemoveAll(folder))
	}
	read := bufio.NewReader(messages)
	var said strings.Builder
	for {
		line, err := read.ReadString('\n')
		said.WriteString(line)
		if strings.Contains(line, "listening on") {
			break
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("start tcpdump: %s", said.String()), c.command.Wait(), os.RemoveAll(folder))
		}
	}
	go func() { _, _ = io.Copy(io.Discard, read) }() // its counts at the end
	return c, nil
}

func (c *capture) file() string { return filepath.Join(c.folder, "capture.pcap") }

// stop returns the time stamps of the packets of that length, in nanoseconds.
func (c *capture) stop(length int) (stamps []int64, err error) {
	time.Sleep(100 * time.Millisecond) // until tcpdump has read what it captured
	err = errors.Join(c.command.Process.Signal(syscall.SIGINT), c.command.Wait())
	defer os.RemoveAll(c.folder)
	if err != nil {
		return nil, fmt.Errorf("end tcpdump: %w", err)
	}
	file, err := os.Open(c.file())
	if err != nil {
		return nil, err
	}
	defer file.Close()
	packets, err := pcap.NewReader(file)
	if err != nil {
		return nil, fmt.Errorf("read capture: %w", err)
	}
	for {
		p, err := packets.Next()
		if err == io.EOF {
			return stamps, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read capture: %w", err)
		}
		if p.Length == length {
			stamps = append(stamps, p.Time.UnixNano())
		}
	}
}
