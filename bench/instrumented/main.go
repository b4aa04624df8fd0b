// Command instrumented is the load of the experiments of `make paper-s4`: applications that
// report by OML's protocol beside their original versions, as in mehani-2011. A call is one
// run, and prints JSON: an object for each interval, then one for the run.
//
//	instrumented iperf --flavour oml-O --threads no --rate 50
//	instrumented capture --trace yes --rate 95
//	instrumented relay --path filter
//
// Snd sends UDP to Rcv over a link of 100 Mbit/s, each in a namespace of its own; reports go
// over links of their own to a collector in a third one, which is this process.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// settings are those of a run.
type settings struct {
	bin              string
	flavour, threads string
	trace            string
	path             string
	rate             float64 // Mbit/s; for relay samples/s
	length           time.Duration
	host             bool
	folder           string // of this run
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "instrumented:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	kinds := map[string]func(context.Context, settings) error{"iperf": runIperf, "capture": runCapture, "relay": runRelay}
	if len(args) == 0 || kinds[args[0]] == nil {
		return fmt.Errorf("use iperf, capture or relay")
	}
	var s settings
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	flags.StringVar(&s.bin, "bin", "bin", "folder of the built programs")
	flags.StringVar(&s.flavour, "flavour", "nooml-c", "nooml-c, oml-c, oml-o or oml-O")
	flags.StringVar(&s.threads, "threads", "yes", "whether another thread reports")
	flags.StringVar(&s.trace, "trace", "no", "yes: the alternative is Pillion's capture, which reports; no: another tcpdump")
	flags.StringVar(&s.path, "path", "server", "server, relay, filter or chain")
	flags.Float64Var(&s.rate, "rate", 10, "Mbit/s of payload; of relay: samples/s")
	flags.DurationVar(&s.length, "length", 10*time.Second, "length of the run; at least 1.5s")
	flags.BoolVar(&s.host, "host", false, "sample processor time and memory of this host before and during the run")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	if os.Geteuid() != 0 {
		return fmt.Errorf("make network namespaces: not root")
	}
	s.length = max(s.length, 1500*time.Millisecond)
	var err error
	if s.folder, err = os.MkdirTemp("", "instrumented"); err != nil {
		return err
	}
	defer os.RemoveAll(s.folder)
	return kinds[args[0]](ctx, s)
}

// show prints objects, one a line.
func show(objects ...map[string]any) error {
	for _, o := range objects {
		text, err := json.Marshal(o)
		if err != nil {
			return fmt.Errorf("print result: %w", err)
		}
		fmt.Println(string(text))
	}
	return nil
}
