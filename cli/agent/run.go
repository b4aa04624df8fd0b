package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"pillion.dev/agent/identity"
	"pillion.dev/agent/service"
	"pillion.dev/cli/command"
	"pillion.dev/internal/clock"
	"pillion.dev/internal/quantity"
)

type runCmd struct {
	Config    string            `help:"YAML file with settings; the command line takes precedence." type:"existingfile" placeholder:"FILE"`
	Server    string            `help:"Host of the server, or HOST:PORT; several servers of one fleet are separated by commas." env:"PILLION_SERVER" placeholder:"HOST"`
	Bus       string            `help:"URLs of the bus, tls://HOST:PORT, separated by commas, in the order in which they are tried; default: those that the server names." placeholder:"URLS"`
	Token     string            `help:"Join token, needed once. Prefer $$PILLION_JOIN_TOKEN or --token-file: other users can see command lines." env:"PILLION_JOIN_TOKEN" placeholder:"T"`
	TokenFile string            `help:"File that contains the join token." placeholder:"FILE"`
	Name      string            `help:"Name of this agent; default: that of the node with hyphens for dots, or the host name up to the first dot." placeholder:"NAME"`
	Node      string            `help:"Name of this host in Kubernetes." env:"PILLION_NODE" placeholder:"NAME"`
	Pods      bool              `name:"kubernetes" help:"Report the pods of this node from the Kubernetes API; requires --node and the rights to list and watch pods."`
	Label     map[string]string `help:"Label that this host claims; sessions select it by the label once an operator has approved it. Repeatable." placeholder:"KEY=VALUE"`
	Data      string            `help:"Directory of the identity and the spool; default: ${folder}." placeholder:"DIR"`
	Spool     quantity.Size     `help:"Maximum size of the spool, such as 512MiB; default: 1GiB." placeholder:"SIZE"`
	Interval  time.Duration     `help:"Interval at which host load and clock are sampled; default: 10s." placeholder:"TIME"`
	OML       string            `name:"oml" help:"Listen address for applications of this host that use OML's protocol, or off; default: ${oml}." placeholder:"ADDR"`
	Validate  string            `name:"path-validation" enum:"auto,addresses,off," default:"" placeholder:"WHEN" help:"auto: sources of sessions mark packets to a peer only while path probes prove its address, and after they have shown that marked packets arrive; addresses: only the former; off: mark them at once; default: auto."`
	Policy    string            `type:"existingfile" placeholder:"FILE" help:"YAML file with what this host lets sessions do, which the server cannot override; default: ${policy}, if it exists."`
	User      string            `placeholder:"USER" help:"User, by name or number, that the part which speaks to the network runs as; default: the owner of the directory, or pillion, or a number that nobody uses."`
	NoSplit   bool              `help:"Run with all privileges in one process, for debugging. Not recommended: whoever takes over that process has them too."`
	Debug     bool              `help:"Log debug messages."`
	// For tests of several hosts on one kernel; with NoSplit.
	TestClockFrom   int64         `hidden:"" help:"Time at which the clock of the probes begins to drift, ns since 1970."`
	TestClockSkew   int64         `hidden:"" help:"Its drift, ns per second."`
	TestClockStep   time.Duration `hidden:"" help:"A step of that clock."`
	TestClockStepAt int64         `hidden:"" help:"Time of the step, ns since 1970."`
	TestClockSilent bool          `hidden:"" help:"The step is in no row of the point clock."`
}

// inject gives the probes a clock of their own, if that is asked for.
func (c *runCmd) inject() error {
	if c.TestClockFrom == 0 {
		return nil
	}
	if !c.NoSplit {
		return errors.New("inject a clock: it applies to one process only: use --no-split")
	}
	clock.Inject(clock.Injection{
		From: time.Unix(0, c.TestClockFrom), SkewPPB: c.TestClockSkew,
		Step: c.TestClockStep, StepAt: time.Unix(0, c.TestClockStepAt), Silent: c.TestClockSilent,
	})
	return nil
}

// Run serves a server until interrupted.
func (c *runCmd) Run(ctx context.Context) error {
	config, err := c.settings()
	if err != nil {
		return err
	}
	if err := c.inject(); err != nil {
		return err
	}
	if other := identity.Other(cmp.Or(config.Folder, service.DefaultFolder), identity.ServiceFolder, identity.DefaultFolder); other != "" {
		command.Log(c.Debug).Warn("this host has another identity, and joins as a second agent", "directory", other, "hint", "use --data "+other+" to continue as the first, or another --name")
	}
	if c.NoSplit {
		return service.RunInOne(ctx, config, command.Log(c.Debug), ready)
	}
	return service.Run(ctx, config, command.Log(c.Debug), ready)
}

// ready notifies systemd, and prints ready for readers of standard output.
func ready() {
	fmt.Println("ready")
	command.Notify("READY=1")
}

func (c *runCmd) settings() (service.Config, error) {
	var config service.Config
	if c.Config != "" {
		var err error
		if config, err = service.ReadConfig(c.Config); err != nil {
			return config, err
		}
	}
	config.Server, config.Name = cmp.Or(c.Server, config.Server), cmp.Or(c.Name, config.Name)
	config.Node = cmp.Or(c.Node, config.Node)
	config.Kubernetes.Enabled = config.Kubernetes.Enabled || c.Pods
	config.Bus = cmp.Or(c.Bus, config.Bus)
	config.Folder, config.OML = cmp.Or(c.Data, config.Folder), cmp.Or(c.OML, config.OML)
	config.User = cmp.Or(c.User, config.User)
	config.Policy = cmp.Or(c.Policy, config.Policy)
	config.PathValidation = cmp.Or(c.Validate, config.PathValidation)
	config.SpoolBytes = cmp.Or(c.Spool, config.SpoolBytes)
	config.HostInterval = cmp.Or(c.Interval, config.HostInterval)
	if len(c.Label) != 0 {
		config.Labels = c.Label
	}
	config.JoinToken = c.Token
	if c.TokenFile != "" {
		text, err := os.ReadFile(c.TokenFile)
		if err != nil {
			return config, fmt.Errorf("read join token: %w", err)
		}
		config.JoinToken = strings.TrimSpace(string(text))
	}
	return config, nil
}
