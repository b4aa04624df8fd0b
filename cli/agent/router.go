package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"pillion.dev/agent/routerreport"
	"pillion.dev/cli/command"
	"pillion.dev/internal/netns"
	"pillion.dev/internal/outfile"
	"pillion.dev/lab"
	"pillion.dev/probe/hook"
	"pillion.dev/probe/router"
	"pillion.dev/ui/report"
	"pillion.dev/wire/fivetuple"
)

// errNetns is an unknown network namespace.
var errNetns = errors.New("no such network namespace")

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
	recordFlags
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
		RecordFile: c.file(), Page: c.Report, Draw: report.Write, JSON: c.JSON, Warnings: os.Stderr,
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
		if options.Namespace, err = openNetns(c.Netns, c.Lab); err != nil {
			return err
		}
		defer options.Namespace.Close()
	}
	return routerreport.Run(ctx, options, c.out())
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

// openNetns opens a namespace. A name takes precedence over a process ID, and both over
// a host of a lab.
func openNetns(name, labName string) (*os.File, error) {
	if labName != "" {
		return openHost(name, labName)
	}
	path := netns.Path(name)
	if filepath.Base(name) != name {
		path = name
	} else if !netns.Exists(name) {
		if _, err := strconv.ParseUint(name, 10, 31); err != nil {
			return openHost(name, "")
		}
		path = "/proc/" + name + "/ns/net"
	}
	return openFile(name, path)
}

func openHost(name, labName string) (*os.File, error) {
	up, err := lab.Open(labName)
	if labName == "" && errors.Is(err, lab.ErrNoLab) {
		return nil, fmt.Errorf("open namespace %q: %w, and no lab is running", name, errNetns)
	}
	if err != nil {
		return nil, fmt.Errorf("open namespace %q: %w", name, err)
	}
	if _, known := up.Spec.Hosts[name]; !known {
		return nil, fmt.Errorf("open namespace %q: %w, and lab %s has no such host", name, errNetns, up.Spec.Name)
	}
	return openFile(name, netns.Path(up.Namespace(name)))
}

func openFile(name, path string) (*os.File, error) {
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("open namespace %q: %w", name, errNetns)
	}
	if err != nil {
		return nil, fmt.Errorf("open namespace %q: %w", name, err)
	}
	var kind unix.Statfs_t
	if err := unix.Fstatfs(int(file.Fd()), &kind); err != nil || kind.Type != unix.NSFS_MAGIC {
		file.Close()
		return nil, fmt.Errorf("open namespace %q: %w: %s is not a namespace", name, errNetns, path)
	}
	return file, nil
}
