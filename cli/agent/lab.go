package agent

import (
	"context"
	"fmt"
	"os"

	"pillion.dev/cli/command"
	"pillion.dev/lab"
)

type labCmd struct {
	Up      labUpCmd      `cmd:"" help:"Start the lab described by a YAML file; a running lab of the same name is stopped first."`
	Down    labDownCmd    `cmd:"" help:"Stop and remove a lab."`
	Exec    labExecCmd    `cmd:"" help:"Run a command on a host."`
	List    labListCmd    `cmd:"" help:"List running labs."`
	Status  labStatusCmd  `cmd:"" help:"Show the hosts, addresses and links of a lab."`
	Truth   labTruthCmd   `cmd:"" help:"Print the ground truth of emulated links: what happened to packets."`
	Change  labChangeCmd  `cmd:"" help:"Change the impairments of a running emulated link."`
	Stop    labStopCmd    `cmd:"" help:"Stop the server or agent on a host of a lab."`
	Start   labStartCmd   `cmd:"" help:"Restart a stopped server or agent on a host of a lab."`
	Demo    labDemoCmd    `cmd:"" help:"Start a lab, measure traffic in it, compare with the ground truth, and remove it."`
	Emulate labEmulateCmd `cmd:"" hidden:"" help:"Connect two taps; started by up."`
	Forward labForwardCmd `cmd:"" hidden:"" help:"Forward connections from this machine to the server in a lab; started by up."`
}

// whichLab is embedded by commands that work on one lab.
type whichLab struct {
	Lab string `help:"The lab, if several are running." placeholder:"NAME"`
}

type labUpCmd struct {
	File    string `arg:"" help:"YAML file of the lab."`
	Forward int    `help:"Port on this machine's loopback that leads to the server, instead of that in the file." placeholder:"PORT"`
}

// Run builds the lab.
func (c *labUpCmd) Run(ctx context.Context) error {
	spec, err := lab.ReadSpec(c.File)
	if err != nil {
		return err
	}
	if c.Forward != 0 {
		if spec.Service == nil {
			return fmt.Errorf("forward port %d: %s has no server", c.Forward, c.File)
		}
		spec.Service.Forward = c.Forward
	}
	up, err := lab.Up(ctx, spec, lab.Options{})
	if err != nil {
		return err
	}
	fmt.Printf("lab %s is up: %d hosts, %d links\n", up.Spec.Name, len(up.Spec.Hosts), len(up.Spec.Links))
	if url := up.ServiceURL(); url != "" {
		fmt.Printf("web page and API: %s, token in %s\n", url, up.TokenFile())
	}
	return nil
}

type labDownCmd struct {
	Name string `arg:"" optional:"" help:"The lab, if several are running."`
}

// Run removes the lab.
func (c *labDownCmd) Run(ctx context.Context) error {
	name := c.Name
	if name == "" {
		var err error
		if name, err = lab.Find(); err != nil {
			return err
		}
	}
	if err := lab.Down(ctx, name); err != nil {
		return err
	}
	fmt.Printf("lab %s stopped\n", name)
	return nil
}

type labExecCmd struct {
	whichLab
	Host    string   `arg:"" help:"The host."`
	Command []string `arg:"" passthrough:"" help:"The command, after --."`
}

// Run becomes the command, so that its signals and exit code are its own.
func (c *labExecCmd) Run() error {
	up, err := lab.Open(c.Lab)
	if err != nil {
		return err
	}
	words := c.Command
	if len(words) > 0 && words[0] == "--" {
		words = words[1:]
	}
	if len(words) == 0 {
		return fmt.Errorf("run command in %s: %w: none given", c.Host, command.ErrUsage)
	}
	return up.Replace(c.Host, words...)
}

type labListCmd struct{}

// Run lists the labs.
func (c *labListCmd) Run() error {
	names, err := lab.List()
	if err != nil {
		return err
	}
	for _, name := range names {
		fmt.Println(name)
	}
	return nil
}

type labStatusCmd struct {
	Name string `arg:"" optional:"" help:"The lab, if several are running."`
}

// Run describes the lab.
func (c *labStatusCmd) Run() error {
	up, err := lab.Open(c.Name)
	if err != nil {
		return err
	}
	return up.WriteStatus(os.Stdout)
}

type labEmulateCmd struct {
	Lab  string `required:""`
	Link string `required:""`
}

// Run forwards frames until interrupted.
func (c *labEmulateCmd) Run(ctx context.Context) error {
	return lab.RunEmulator(ctx, c.Lab, c.Link)
}

type labForwardCmd struct {
	Lab string `required:""`
}

// Run forwards connections until interrupted.
func (c *labForwardCmd) Run(ctx context.Context) error { return lab.RunForward(ctx, c.Lab) }
