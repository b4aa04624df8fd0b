package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// What a throttled process gets: 1 ms of processor time in each 10 ms. Real-time threads
// are exempt from it, as code in the kernel is.
const (
	quotaUS  = 1_000
	periodUS = 10_000
	// realtimeUS of a second is what version 1 would otherwise not give to real-time threads at all.
	realtimeUS = 900_000
)

// throttle moves this process into a control group with a tenth of a processor, in place
// of a weak device, and returns what moves it back.
func throttle() (stop func() error, err error) {
	root, settings := "/sys/fs/cgroup", map[string]string{"cpu.max": fmt.Sprintf("%d %d", quotaUS, periodUS)}
	if _, err := os.Stat(filepath.Join(root, "cgroup.controllers")); err != nil {
		root, settings = "/sys/fs/cgroup/cpu", map[string]string{
			"cpu.cfs_quota_us": strconv.Itoa(quotaUS), "cpu.cfs_period_us": strconv.Itoa(periodUS), "cpu.rt_runtime_us": strconv.Itoa(realtimeUS),
		}
	} else if err := write(root, "cgroup.subtree_control", "+cpu"); err != nil {
		return nil, err
	}
	self := strconv.Itoa(os.Getpid())
	group := filepath.Join(root, namePrefix+self)
	if err := os.Mkdir(group, 0o755); err != nil {
		return nil, fmt.Errorf("create control group: %w", err)
	}
	stop = func() error {
		return errors.Join(write(root, "cgroup.procs", self), os.Remove(group))
	}
	for name, value := range settings {
		err = errors.Join(err, writeIfPresent(group, name, value))
	}
	if err = errors.Join(err, write(group, "cgroup.procs", self)); err != nil {
		return nil, errors.Join(err, stop())
	}
	return stop, nil
}

func write(group, name, value string) error {
	if err := os.WriteFile(filepath.Join(group, name), []byte(value), 0o644); err != nil {
		return fmt.Errorf("set up control group: %w", err)
	}
	return nil
}

// writeIfPresent leaves out what only some kernels have.
func writeIfPresent(group, name, value string) error {
	err := write(group, name, value)
	if errors.Is(err, os.ErrNotExist) && name == "cpu.rt_runtime_us" {
		return nil
	}
	return err
}
