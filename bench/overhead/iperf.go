package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"pillion.dev/internal/netns"
)

// tcpResult is iperf3's result of one run of a single stream.
type tcpResult struct {
	Bytes       float64 `json:"bytes"` // received
	Retransmits int     `json:"retransmits"`
	// BitsPerSecond is the rate by the clock, as received.
	BitsPerSecond float64 `json:"bits_per_second"`
	// BitsPerCPUSecond is the rate by the CPU time that both ends of iperf3
	// took. Soft interrupts that ran outside them, and the agents, are not in it.
	BitsPerCPUSecond float64 `json:"bits_per_cpu_second"`
}

func startIperfServer(ctx context.Context, t *testbed) (*process, error) {
	listening := func(line string) bool { return strings.Contains(line, "listening") }
	return startProcess(ctx, t.destination.namespace, listening, "iperf3", "--server", "--forceflush")
}

// sendTCP sends one bulk stream from source to destination.
func sendTCP(ctx context.Context, t *testbed, v6 bool, cores string, duration time.Duration) (tcpResult, error) {
	to := t.destination.address4
	if v6 {
		to = t.destination.address6
	}
	command := exec.CommandContext(ctx, "iperf3", "--client", to.String(), "--json",
		"--time", strconv.Itoa(int(duration.Seconds())), "--affinity", cores)
	var output strings.Builder
	command.Stdout = &output
	if err := netns.Do(t.source.namespace, command.Start); err != nil {
		return tcpResult{}, fmt.Errorf("start iperf3: %w", err)
	}
	waitErr := command.Wait()
	if ctx.Err() != nil {
		return tcpResult{}, ctx.Err()
	}
	result, err := parseIperf([]byte(output.String()))
	if err == nil && waitErr != nil {
		err = waitErr
	}
	if err != nil {
		return result, fmt.Errorf("run iperf3 to %s: %w", to, err)
	}
	return result, nil
}

func parseIperf(report []byte) (tcpResult, error) {
	var parsed struct {
		Error string `json:"error"`
		End   struct {
			Sent struct {
				Retransmits int `json:"retransmits"`
			} `json:"sum_sent"`
			Received struct {
				Bytes   float64 `json:"bytes"`
				Seconds float64 `json:"seconds"`
			} `json:"sum_received"`
			CPU struct {
				Sender   float64 `json:"host_total"`
				Receiver float64 `json:"remote_total"`
			} `json:"cpu_utilization_percent"`
		} `json:"end"`
	}
	if err := json.Unmarshal(report, &parsed); err != nil {
		return tcpResult{}, fmt.Errorf("parse report %.60q: %w", report, err)
	}
	if parsed.Error != "" {
		return tcpResult{}, fmt.Errorf("iperf3 says: %s", parsed.Error)
	}
	received, cpu := parsed.End.Received, (parsed.End.CPU.Sender+parsed.End.CPU.Receiver)/100
	if received.Bytes <= 0 || received.Seconds <= 0 || cpu <= 0 {
		return tcpResult{}, fmt.Errorf("nothing was received: %g bytes in %g s", received.Bytes, received.Seconds)
	}
	rate := received.Bytes * 8 / received.Seconds
	return tcpResult{received.Bytes, parsed.End.Sent.Retransmits, rate, rate / cpu}, nil
}
