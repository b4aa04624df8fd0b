package agent

import (
	"context"
	"fmt"
	"net"
	"os"

	"pillion.dev/cli/agent"
	"pillion.dev/cli/command"
	"pillion.dev/internal/netns"
	"pillion.dev/internal/quantity"
	"pillion.dev/send/stream"
)

type discardCmd struct {
	Listen string `required:"" placeholder:"ADDRESS:PORT" help:"Address of this host to listen on, such as 192.0.2.2:9."`
	Netns  string `placeholder:"NAME" help:"Network namespace: a name, a path, the ID of a process in it, or a host of a lab; default: the current one."`
	Lab    string `placeholder:"NAME" help:"Lab of the host given by --netns, if several are running."`
}

// Run accepts TCP connections and discards the data that they receive, until it is interrupted.
func (c *discardCmd) Run(ctx context.Context) error {
	var l net.Listener
	listen := func() (err error) {
		l, err = net.Listen("tcp", c.Listen)
		return err
	}
	var err error
	if c.Netns != "" {
		var namespace *os.File
		if namespace, err = agent.OpenNetns(c.Netns, c.Lab); err != nil {
			return err
		}
		err = netns.DoIn(namespace, listen)
		namespace.Close()
	} else {
		err = listen()
	}
	if err != nil {
		return fmt.Errorf("listen on --listen %s: %w: %w", c.Listen, command.ErrValue, err)
	}
	fmt.Println("listening on", l.Addr())
	connections, bytes, err := stream.Discard(ctx, l)
	fmt.Printf("discarded %s of %s\n", quantity.Count(bytes, "byte"), quantity.Count(connections, "connection"))
	return err
}
