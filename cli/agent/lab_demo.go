package agent

import (
	"context"
	"fmt"
	"os"
	"time"

	"pillion.dev/cli/command"
	"pillion.dev/lab/demo"
)

type labDemoCmd struct {
	Seconds int    `default:"15" help:"Duration of the traffic in seconds (${default})."`
	Keep    bool   `help:"Leave the lab running at the end."`
	Fleet   bool   `help:"Measure by three servers on a NATS cluster and a ClickHouse cluster, and kill a server and a replica half way. It needs nats-server beside this program, clickhouse-server and ZooKeeper: make demo-fleet brings them."`
	Name    string `hidden:""`
}

// Run measures a lab with this program and those in its directory.
func (c *labDemoCmd) Run(ctx context.Context) error {
	if c.Seconds < 3 || c.Seconds > 3600 {
		return fmt.Errorf("read seconds: %w: %d is not between 3 and 3600", command.ErrValue, c.Seconds)
	}
	agent, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	return demo.Run(ctx, demo.Options{Agent: agent, Time: time.Duration(c.Seconds) * time.Second, Keep: c.Keep, Fleet: c.Fleet, Name: c.Name}, os.Stdout)
}
