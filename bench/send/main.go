// Command send repeats the experiments of seed 5 (E1 to E6, E8, E10 to E12; bench/capacity has
// E7 and E9): how exactly trains and pairs leave by pre-dispatch and by a plain socket, idle,
// beside loads and with a tenth of a processor, over a veth pair, as an observer that shares
// nothing with the sender sees them reach the driver. Beside them other programs that send
// at a rate, as far as installed. Blocks hold everything once, in random order. It needs root.
//
// Figures are of one machine without wires. An absolute time proves little on a shared
// machine; the ratios of the same block prove more.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"syscall"
	"time"

	"pillion.dev/bench/machine"
	"pillion.dev/internal/netns"
)

type settings struct {
	Blocks  int    `json:"blocks"`
	Trains  int    `json:"trains_per_block"`
	Packets int    `json:"packets_per_train"`
	Pairs   int    `json:"pairs_per_block"`
	Flush   int    `json:"packets_of_the_longest_train"`
	Seed    uint64 `json:"seed"`

	out    string
	only   *regexp.Regexp
	render bool
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == "load" { // a child of this program
		exit(imposeLoad(os.Args[2:]))
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	cancel()
	exit(err)
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "send:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func parse() (s settings, err error) {
	flag.IntVar(&s.Blocks, "blocks", 9, "blocks; fewer than 6 decide nothing")
	flag.IntVar(&s.Trains, "trains", 8, "trains of a cell in a block")
	flag.IntVar(&s.Packets, "packets", 50, "packets of a train")
	flag.IntVar(&s.Pairs, "pairs", 50, "pairs of a cell in a block")
	flag.IntVar(&s.Flush, "flush", 100_000, "identical packets sent as close to each other as possible")
	flag.Uint64Var(&s.Seed, "seed", 1, "seed of the order of cells")
	flag.StringVar(&s.out, "out", "bench/results", "folder of the results; - writes none")
	flag.BoolVar(&s.render, "render", false, "only write the report of the results that the folder has")
	only := flag.String("only", "", "regular expression of the names of the cells to run; the others are left out")
	flag.Parse()
	if s.only, err = regexp.Compile(*only); err != nil {
		return s, fmt.Errorf("read -only: %w", err)
	}
	return s, nil
}

func run(ctx context.Context) error {
	s, err := parse()
	if err != nil {
		return err
	}
	if s.render {
		return render(s.out)
	}
	if os.Geteuid() != 0 {
		return errors.New("make network namespaces: not root; run it with sudo")
	}
	r, err := measure(ctx, s)
	if err != nil {
		return err
	}
	fmt.Print(r.markdown())
	if s.out == "-" {
		return nil
	}
	if err := r.write(s.out); err != nil {
		return err
	}
	return render(s.out)
}

func measure(ctx context.Context, s settings) (r *report, err error) {
	if err := netns.DeleteStale(namePrefix); err != nil {
		return nil, err
	}
	r = &report{Experiment: "send", Date: time.Now().UTC(), Commit: machine.Commit(), Machine: machine.Describe(), Settings: s, Cells: cells(), Models: models(), Peers: peers(), Speeds: speeds()}
	if r.Clock, err = newClock(); err != nil {
		return nil, err
	}
	b, err := newBed(0)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	x := experiment{settings: s, bed: b}
	for _, u := range r.units() {
		if s.only.MatchString(u.name()) {
			x.units = append(x.units, u)
		}
	}
	if err := x.run(ctx); err != nil {
		return nil, err
	}
	r.Bars, r.Claims = append(bars(r.Cells), modelBars(r.Models)...), claims(r)
	r.Seconds, r.Machine.LoadEnd = time.Since(r.Date).Seconds(), machine.Load()
	return r, nil
}
