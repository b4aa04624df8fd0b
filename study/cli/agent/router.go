package agent

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"pillion.dev/cli/agent"
	"pillion.dev/cli/command"
	"pillion.dev/internal/outfile"
	"pillion.dev/probe/hook"
	"pillion.dev/probe/router"
	"pillion.dev/study/routerreport"
	"pillion.dev/ui/report"
	"pillion.dev/wire/fivetuple"
)

type routerCmd struct {
	Netns    string        `placeholder:"NAME" help:"Network namespace of the router: a name, a path, the ID of a process in it, or a host of a lab; default: the current one."`
	Lab      string        `placeholder:"NAME" help:"Lab of the host given by --netns, if several are running."`
	Dev      string        `placeholder:"IN,OUT" help:"Only packets that enter by IN and leave by OUT; either may be omitted. Join several names with +."`
	Filter   string        `placeholder:"RULE" help:"Only packets that match 'src=P dst=P proto=tcp sport=N dport=N'; all parts are optional."`
	Sampling uint32        `default:"1" placeholder:"N" help:"Profile one in N packets, at random (${default})."`
	Duration time.Duration `placeholder:"TIME" help:"Stop after this time, such as 30s; default: on Ctrl-C."`
	Interval time.Duration `default:"1s" help:"Interval of the live view (${default})."`
	Break    time.Duration `default:"100us" help:"Minimum length of a coffee break, a period in which queued packets are not processed (${default})."`
	Causes   bool          `default:"true" negatable:"" help:"Record the causes of coffee breaks, which adds hooks on softirqs and process switches (on)."`
	agent.RecordFlags
	RecordBytes int          `default:"4194304" placeholder:"BYTES" help:"Size of the ring buffer for records in bytes, a power of two (${default})."`
	Report      outfile.Path `placeholder:"FILE" help:"Write an HTML report to this file."`
	Costs       bool         `default:"true" negatable:"" help:"Measure the cost of the BPF programs during a tenth of the time (on)."`
	JSON        bool         `name:"json" help:"Print JSON, one object per line."`
}

// Run profiles the router.
func (c *routerCmd) Run(ctx context.Context) error {
	if err := hook.NeedRoot(); err != nil {
		return err
	}
	options := routerreport.Options{
		Name: c.Netns, Filter: c.Filter, Duration: c.Duration, Interval: c.Interval,
		RecordFile: c.File(), Page: c.Report, Draw: report.Write, JSON: c.JSON, Warnings: os.Stderr,
		Options: router.Options{Sampling: c.Sampling, RecordBytes: c.RecordBytes, Costs: c.Costs, Causes: c.Causes, Break: c.Break},
	}
	if c.Interval <= 0 || c.Duration < 0 || c.Break <= 0 {
		return fmt.Errorf("read times: %w: --interval, --duration and --break must be positive", command.ErrValue)
	}
	options.In, options.Out = devices(c.Dev)
	var err error
	if options.Match, err = match(c.Filter); err != nil {
		return err
	}
	if c.Netns != "" {
		if options.Namespace, err = agent.OpenNetns(c.Netns, c.Lab); err != nil {
			return err
		}
		defer options.Namespace.Close()
	}
	return routerreport.Run(ctx, options, c.Out())
}

// devices reads IN,OUT.
func devices(text string) (in, out []string) {
	names := func(text string) []string {
		return strings.FieldsFunc(text, func(r rune) bool { return r == '+' })
	}
	input, output, _ := strings.Cut(text, ",")
	return names(input), names(output)
}

func match(text string) (router.Match, error) {
	if text == "" {
		return router.Match{}, nil
	}
	rule, err := fivetuple.ParseFilter(text)
	if err != nil {
		return router.Match{}, err
	}
	if rule.HasProtocol && rule.Protocol == 0 {
		return router.Match{}, fmt.Errorf("read filter %q: %w: protocol 0 is not supported", text, command.ErrValue)
	}
	return router.Match{
		Source: rule.Src, Destination: rule.Dst, Protocol: rule.Protocol,
		SourcePort: rule.Sport, DestinationPort: rule.Dport,
	}, nil
}
