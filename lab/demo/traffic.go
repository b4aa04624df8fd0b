package demo

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"pillion.dev/lab/emulator"
)

// flows are the flows of the demo, each between an iperf3 client on host a and an iperf3 server on host b.
var flows = []struct {
	name string
	port int
	args []string
}{
	{"TCP IPv6", 5201, []string{"-c", "fd77:0:0:2::2", "-b", "20M"}},
	{"TCP IPv4", 5202, []string{"-c", "10.77.2.2", "-b", "20M"}},
	{"UDP IPv6", 5203, []string{"-c", "fd77:0:0:2::2", "-u", "-b", "10M", "-l", "512"}},
	{"UDP IPv4", 5204, []string{"-c", "10.77.2.2", "-u", "-b", "10M", "-l", "512"}},
}

// traffic runs all flows at once. The link is lossless while they connect and before they end,
// because iperf3 fails otherwise.
func (d *demo) traffic(ctx context.Context) error {
	for _, flow := range flows {
		server := exec.Command("iperf3", "-s", "-p", fmt.Sprint(flow.port))
		if err := d.lab.Start("b", server); err != nil {
			return fmt.Errorf("start iperf3: %w", err)
		}
		defer func() {
			_ = server.Process.Signal(unix.SIGTERM)
			_ = server.Wait() // ended by the signal
		}()
		if err := d.listening(ctx, flow.port); err != nil {
			return err
		}
	}
	failures := make([]error, len(flows))
	var clients sync.WaitGroup
	for i, flow := range flows {
		clients.Go(func() { failures[i] = d.client(ctx, flow.name, flow.port, flow.args) })
	}
	storm := time.AfterFunc(calmTime, func() { d.change(ctx, "a", d.faults) })
	defer storm.Stop()
	calm := time.AfterFunc(max(d.options.Time-calmTime, calmTime), func() { d.change(ctx, "", emulator.Calm()) })
	defer calm.Stop()
	clients.Wait()
	return errors.Join(failures...)
}

func (d *demo) change(ctx context.Context, from string, faults emulator.Change) {
	if err := d.lab.Change(ctx, "a-r", from, faults); err != nil {
		fmt.Fprintln(d.out, "note: the link could not be changed:", err)
	}
}

func (d *demo) client(ctx context.Context, name string, port int, args []string) error {
	args = append([]string{"-p", fmt.Sprint(port), "-t", fmt.Sprint(int(d.options.Time.Seconds()))}, args...)
	text, err := d.lab.Exec(ctx, "a", append([]string{"iperf3"}, args...)...)
	if err != nil {
		return fmt.Errorf("run iperf3 %s: %w: %s", name, err, lastLine(text))
	}
	return nil
}

func lastLine(text []byte) string {
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return lines[len(lines)-1]
}

// listening waits until the iperf3 server listens on the TCP port.
func (d *demo) listening(ctx context.Context, port int) error {
	return until(ctx, "iperf3 to listen", func() (bool, error) {
		text, err := d.lab.Exec(ctx, "b", "ss", "-Hltn", fmt.Sprintf("sport = :%d", port))
		return len(strings.TrimSpace(string(text))) != 0, err
	})
}
