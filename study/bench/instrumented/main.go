// Command instrumented is the workload of the experiments on applications that report by OML's
// protocol (study/bench/paper/s4, study/bench/relay.yaml, study/bench/inject*.yaml): a call is one run, and prints
// one JSON object. Its subcommands:
//
//	iperf    an application that sends UDP, beside its original version, as in mehani-2011
//	capture  a capture that reports, beside another one, as in mehani-2011
//	relay    the sample rate from an application to the server, and what is on the way
//	inject   what omlc_inject costs at a rate, and what is lost
//	killed   what is lost if the server is killed and comes back
//
// For iperf and capture, which need root, Snd sends UDP to Rcv over a link of 100 Mbit/s, each in
// a namespace of its own; reports go over links of their own to a collector in a third one, which
// is this process. The other ones use loopback.
package main

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"time"

	"pillion.dev/study/bench/result"
)

var commands = map[string]result.Command{
	"iperf": result.Root(command(least, func(s *settings, f *flag.FlagSet) {
		f.StringVar(&s.flavour, "flavour", original, "nooml-c, oml-c, oml-o or oml-O")
		f.StringVar(&s.threads, "threads", "yes", "whether another thread reports")
		s.bedFlags(f)
	}, runIperf)),
	"capture": result.Root(command(least, func(s *settings, f *flag.FlagSet) {
		f.StringVar(&s.trace, "trace", "no", "yes: the alternative is Pillion's capture, which reports; no: another tcpdump")
		s.flavour, s.threads = original, "yes"
		s.bedFlags(f)
	}, runCapture)),
	"relay": command(least, func(s *settings, f *flag.FlagSet) {
		f.StringVar(&s.path, "path", "server", "server, relay, filter or chain")
		f.Float64Var(&s.rate, "rate", 0, "samples/s; 0: as fast as they are acknowledged")
	}, runRelay),
	"inject": command(least, func(s *settings, f *flag.FlagSet) {
		f.StringVar(&s.library, "library", ours, ours+" or "+peer)
		f.StringVar(&s.report, "report", "binary", "off, text or binary")
		f.StringVar(&s.collector, "collector", "reads", "reads, or stopped: it accepts a connection and reads nothing")
		f.Float64Var(&s.rate, "rate", 1e6, "samples/s")
	}, runInject),
	"killed": command(leastKilled, func(s *settings, f *flag.FlagSet) {
		s.library = ours
		f.StringVar(&s.report, "report", "binary", "text or binary")
		f.Float64Var(&s.rate, "rate", 20_000, "samples/s")
	}, runKilled),
}

func main() { result.Main("instrumented", commands) }

// original is the flavour without the library.
const original = "nooml-c"

// settings of a run.
type settings struct {
	bin                        string
	flavour, threads           string
	trace                      string
	path                       string
	library, report, collector string
	rate                       float64 // Mbit/s of payload on the bed, otherwise samples/s
	length                     time.Duration
	host                       bool
	folder                     string // of this run
}

func (s *settings) bedFlags(f *flag.FlagSet) {
	f.Float64Var(&s.rate, "rate", 10, "Mbit/s of payload")
	f.BoolVar(&s.host, "host", false, "sample processor time and memory of this host before and during the run")
}

// least is the length of a run below which there is no whole interval.
const least = 1500 * time.Millisecond

func command(least time.Duration, flags func(*settings, *flag.FlagSet), run func(context.Context, settings) (result.Result, error)) result.Command {
	return func(f *flag.FlagSet) func(ctx context.Context) (result.Result, error) {
		var s settings
		flags(&s, f)
		f.StringVar(&s.bin, "bin", "bin", "folder of the built programs")
		f.DurationVar(&s.length, "length", 10*time.Second, "length of the run; at least "+least.String())
		return func(ctx context.Context) (r result.Result, err error) {
			if os.Getenv("QUICK") != "" { // of pillion experiment run --quick
				s.length = 0
			}
			s.length = max(s.length, least)
			if s.folder, err = os.MkdirTemp("", "instrumented"); err != nil {
				return nil, err
			}
			defer os.RemoveAll(s.folder)
			return run(ctx, s)
		}
	}
}

// program is the path of a built program of this workload.
func (s settings) program(name string) string { return filepath.Join(s.bin, "bench", name) }
