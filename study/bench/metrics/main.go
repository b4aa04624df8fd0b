// Command metrics measures what it costs a pillion-server to show its metrics to other programs: the CPU time of a
// scrape of /metrics, in text and in protobuf with native histograms, and of an export by OTLP, with as many pairs as
// asked for. It prints one JSON object; core_percent is of one core at an interval of 15 s.
//
// The server runs in a separate process, as users run it. Its CPU time while nothing is asked for is subtracted
// from the CPU time of exports, which come at an interval, but not from the CPU time of scrapes, which follow one
// upon the other. What it does not prove: rows arrive once, before the measurement; other programs on the
// processors make the figures worse.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/shirou/gopsutil/v4/process"

	"pillion.dev/study/bench/fleet"
	"pillion.dev/study/bench/result"
)

// interval is the export interval that core_percent assumes.
const interval = 15 * time.Second

type settings struct {
	server  string
	pairs   int
	packets int
	scrapes int
	length  time.Duration
}

func main() { result.Only("metrics", command) }

func command(f *flag.FlagSet) func(ctx context.Context) (result.Result, error) {
	var s settings
	f.StringVar(&s.server, "server", "bin/pillion-server", "the server's program")
	f.IntVar(&s.pairs, "pairs", 1000, "pairs with metrics, at most 1000")
	f.IntVar(&s.packets, "packets", 1000, "packets of each pair: the more, the more buckets are not empty")
	f.IntVar(&s.scrapes, "scrapes", 40, "scrapes in each format")
	f.DurationVar(&s.length, "length", 20*time.Second, "how long exports, one a second, are measured")
	return s.measure
}

func (s *settings) check() error {
	switch {
	case s.pairs < 1 || s.pairs > 1000:
		return fmt.Errorf("invalid -pairs %d: want 1 to 1000", s.pairs)
	case s.packets < 1:
		return fmt.Errorf("invalid -packets %d: want a positive number", s.packets)
	case s.scrapes < 1:
		return fmt.Errorf("invalid -scrapes %d: want a positive number", s.scrapes)
	case s.length < 5*time.Second:
		return fmt.Errorf("invalid -length %v: want at least 5s", s.length)
	}
	return nil
}

func (s *settings) measure(ctx context.Context) (result.Result, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp("", "pillion-metrics-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	r := result.Result{"pairs": s.pairs}
	idle, err := s.scrapeAll(ctx, filepath.Join(folder, "scraped"), r)
	if err != nil {
		return nil, err
	}
	return r, s.export(ctx, filepath.Join(folder, "exporting"), idle, r)
}

// scrapeAll measures scrapes, and returns how many cores the server uses without them.
func (s *settings) scrapeAll(ctx context.Context, folder string, r result.Result) (idle float64, err error) {
	server, err := s.start(ctx, folder)
	if err != nil {
		return 0, err
	}
	defer server.Stop()
	if idle, err = cores(ctx, server, s.length); err != nil {
		return 0, err
	}
	r["idle_cores"] = idle
	for _, f := range []struct{ name, accept string }{
		{"text", "text/plain;version=0.0.4"},
		{"native", "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited"},
	} {
		before, err := used(server)
		if err != nil {
			return 0, err
		}
		bytes := int64(0)
		for range s.scrapes {
			if bytes, err = scrape(ctx, server, f.accept); err != nil {
				return 0, err
			}
		}
		after, err := used(server)
		if err != nil {
			return 0, err
		}
		r[f.name+"_bytes"] = bytes
		put(r, f.name, (after-before)/float64(s.scrapes))
	}
	return idle, nil
}

// export measures exports.
func (s *settings) export(ctx context.Context, folder string, idle float64, r result.Result) error {
	sink := newSink()
	defer sink.Close()
	config := folder + ".yaml"
	if err := os.WriteFile(config, fmt.Appendf(nil, "otlp: {url: %q, interval: 1s}\n", sink.URL), 0o600); err != nil {
		return err
	}
	server, err := s.start(ctx, folder, "--config", config)
	if err != nil {
		return err
	}
	defer server.Stop()
	exportsBefore, bytesBefore := sink.seen()
	busy, err := cores(ctx, server, s.length)
	if err != nil {
		return err
	}
	exports, bytes := sink.seen()
	exports, bytes = exports-exportsBefore, bytes-bytesBefore
	if exports == 0 {
		return fmt.Errorf("measure exports: none within %v", s.length)
	}
	r["exports"], r["otlp_bytes"] = exports, bytes/int64(exports)
	put(r, "otlp", max(0, busy-idle)*s.length.Seconds()/float64(exports))
	return nil
}

// put writes the CPU time of one scrape or export.
func put(r result.Result, name string, seconds float64) {
	r[name+"_cpu_ms"], r[name+"_core_percent"] = seconds*1e3, 100*seconds/interval.Seconds()
}

// used is the CPU time of the server, seconds.
func used(s *fleet.Server) (float64, error) {
	p, err := process.NewProcess(int32(s.Command.Process.Pid))
	if err != nil {
		return 0, fmt.Errorf("read CPU time: %w", err)
	}
	times, err := p.Times()
	if err != nil {
		return 0, fmt.Errorf("read CPU time: %w", err)
	}
	return times.User + times.System, nil
}

// cores is how many the server uses for a time.
func cores(ctx context.Context, s *fleet.Server, length time.Duration) (float64, error) {
	began := time.Now()
	before, err := used(s)
	if err != nil {
		return 0, err
	}
	select {
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-time.After(length):
	}
	after, err := used(s)
	return (after - before) / time.Since(began).Seconds(), err
}
