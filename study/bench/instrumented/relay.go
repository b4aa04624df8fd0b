package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"pillion.dev/oml/omsp"
	"pillion.dev/oml/omsp/client"
	"pillion.dev/study/bench/fleet"
	"pillion.dev/study/bench/result"
)

// agentFilters are the configurations of the paths through an agent.
var agentFilters = map[string]string{
	"relay": "",
	"filter": `streams:
  - {name: sums, domain: s4, point: load_samples, filters: [sum(n), avg(x), count()], every: 1s, replace: true}
`,
	"chain": `streams:
  - {name: sums, domain: s4, point: load_samples, filters: [sum(n), avg(x), count()], every: 1s, replace: true}
  - {name: means, point: sums, filters: [avg(n_sum), max(x_avg), sum(count)], every: 1m, replace: true}
`,
}

// runRelay measures the sample rate of the way from an application to the server, and the
// processor time and memory of what is on it: the server alone, an agent that relays, and
// one that filters. The application sends as fast as acknowledgements come.
func runRelay(ctx context.Context, s settings) (result.Result, error) {
	config, viaAgent := agentFilters[s.path]
	if !viaAgent && s.path != "server" {
		return nil, fmt.Errorf("path %q: use server, relay, filter or chain", s.path)
	}
	toServer, err := fleet.FreeAddress()
	if err != nil {
		return nil, err
	}
	server, err := fleet.StartServer(filepath.Join(s.bin, "pillion-server"), filepath.Join(s.folder, "server"), "", "--oml", toServer)
	if err != nil {
		return nil, err
	}
	defer server.Kill()
	measured, address := server.Command, toServer
	if viaAgent {
		if address, err = fleet.FreeAddress(); err != nil {
			return nil, err
		}
		file := filepath.Join(s.folder, "agent.yaml")
		if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
			return nil, err
		}
		agent, err := start(ctx, "", "connected", filepath.Join(s.bin, "pillion-agent"), "run", "--server", server.Address, "--name", "here", "--data", filepath.Join(s.folder, "agent"),
			"--oml", address, "--token-file", filepath.Join(server.Folder, "join.token"), "--config", file)
		if err != nil {
			return nil, err
		}
		defer agent.stop(syscall.SIGKILL)
		measured = agent.command
	}
	before, _, err := footprint(measured.Process.Pid)
	if err != nil {
		return nil, err
	}
	sent, seconds, err := s.load(ctx, address)
	if err != nil {
		return nil, err
	}
	after, memory, err := footprint(measured.Process.Pid)
	if err != nil {
		return nil, err
	}
	return result.Result{
		"samples": sent, "samples_per_s": float64(sent) / seconds, "cpu_us_per_sample": (after - before) * 1e6 / float64(max(sent, 1)),
		"cores": (after - before) / seconds, "memory_mb": memory / 1e6,
	}, nil
}

// ahead is how many samples may be without an acknowledgement.
const ahead = 50_000

// load injects until the time is over and everything is acknowledged.
func (s settings) load(ctx context.Context, address string) (sent int64, seconds float64, err error) {
	c, err := client.New(client.Options{Address: address, Domain: "s4", Sender: "load", App: "load", Buffer: 64 << 20})
	if err != nil {
		return 0, 0, err
	}
	p, err := c.Point("samples", omsp.Field{Name: "n", Type: omsp.Int64}, omsp.Field{Name: "x", Type: omsp.Double},
		omsp.Field{Name: "text", Type: omsp.String}, omsp.Field{Name: "u", Type: omsp.Uint32})
	if err != nil {
		return 0, 0, err
	}
	values := make([]omsp.Value, 4)
	values[2].SetString("twelve bytes")
	begun := time.Now()
	for ctx.Err() == nil && time.Since(begun) < s.length {
		if c.Waiting() > ahead {
			time.Sleep(time.Millisecond)
			continue
		}
		for range 1000 {
			sent++
			values[0].SetInt(omsp.Int64, sent)
			values[1].SetDouble(float64(sent) / 1000)
			values[3].SetUint(omsp.Uint32, uint64(uint32(sent)))
			if err := p.Inject(values); err != nil {
				return sent, 0, err
			}
		}
		if s.rate > 0 {
			time.Sleep(time.Until(begun.Add(time.Duration(float64(sent) / s.rate * 1e9))))
		}
	}
	closing, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	err = c.Close(closing)
	return sent, time.Since(begun).Seconds(), err
}

// footprint is the processor time of a process and its children, s, and their resident
// memory, bytes.
func footprint(pid int) (cpu, memory float64, err error) {
	// A child belongs to the thread that started it.
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	processes := []string{strconv.Itoa(pid)}
	for _, list := range lists {
		children, _ := os.ReadFile(list)
		processes = append(processes, strings.Fields(string(children))...)
	}
	for _, word := range processes {
		text, err := os.ReadFile("/proc/" + word + "/stat")
		if err != nil {
			return 0, 0, fmt.Errorf("read footprint: %w", err)
		}
		words := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		for _, at := range []int{11, 12} {
			ticks, _ := strconv.ParseFloat(words[at], 64)
			cpu += ticks / 100
		}
		pages, _ := strconv.ParseFloat(words[21], 64)
		memory += pages * float64(os.Getpagesize())
	}
	return cpu, memory, nil
}
