package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"pillion.dev/internal/test/sealed"
)

func TestMain(m *testing.M) {
	if os.Getenv("TELL_TIME") != "" { // a program whose clock is stepped
		for line := bufio.NewScanner(os.Stdin); line.Scan(); {
			fmt.Println(time.Now().Unix())
		}
		return
	}
	if s := os.Getenv(senderVariable); s != "" {
		if err := runApplication(s, os.Getenv(addressVariable)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(sealed.Main(m))
}

func TestClockStepsInOneProcess(t *testing.T) {
	if !canStep {
		t.Skip("written for amd64")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command(self)
	command.Env = append(os.Environ(), "TELL_TIME=1")
	in, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	answers := bufio.NewReader(out)
	ask := func() string {
		fmt.Fprintln(in)
		line, err := answers.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		return line
	}
	ask() // before its first answer its image may not be whole
	c, err := replaceClock(command.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	for _, ahead := range []time.Duration{0, time.Hour, -time.Minute, 0} {
		if err := c.step(ahead); err != nil {
			t.Fatal(err)
		}
		line := ask()
		seconds, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
		if off := time.Unix(seconds, 0).Sub(time.Now().Add(ahead)).Abs(); err != nil || off > 3*time.Second {
			t.Errorf("%v ahead: the program's clock is %v off, %v", ahead, off, err)
		}
	}
	in.Close()
	if err := errors.Join(c.Close(), command.Wait()); err != nil {
		t.Error(err)
	}
}

func TestDiskFails(t *testing.T) {
	requireFUSE(t)
	folder := t.TempDir()
	d, err := mountDisk(filepath.Join(folder, "behind"), filepath.Join(folder, "seen"), 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.unmount(); err != nil {
			t.Error(err)
		}
	})
	file, err := os.Create(filepath.Join(d.Mount, "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	try := func(fault string) (write, sync error) {
		if fault == "" {
			d.fail(nil)
		} else {
			f := diskFaults[fault]
			d.fail(&f)
		}
		_, write = file.Write([]byte("x"))
		return write, file.Sync()
	}
	if write, sync := try(""); write != nil || sync != nil {
		t.Errorf("without a fault: %v, %v", write, sync)
	}
	if write, sync := try("no space"); !errors.Is(write, syscall.ENOSPC) || sync != nil {
		t.Errorf("no space: %v, %v", write, sync)
	}
	if write, sync := try("fsync fails"); write != nil || !errors.Is(sync, syscall.EIO) {
		t.Errorf("fsync fails: %v, %v", write, sync)
	}
	if write, sync := try(""); write != nil || sync != nil {
		t.Errorf("after the faults: %v, %v", write, sync)
	}
	if text, err := os.ReadFile(filepath.Join(d.Folder, "file")); err != nil || string(text) != "xxx" {
		t.Errorf("behind it: %q, %v", text, err)
	}
}

func requireFUSE(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("mounting requires root")
	}
	if _, err := os.Stat("/dev/fuse"); err != nil {
		t.Skip("this kernel has no FUSE:", err)
	}
}
