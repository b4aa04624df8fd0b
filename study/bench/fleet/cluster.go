package fleet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// hubs are the nodes of the NATS cluster.
const hubs = 3

// Cluster is a fleet on this machine: pillion-servers on a NATS cluster of three hubs, with an
// archive in one ClickHouse server, all in processes of their own on ports of the loopback address.
type Cluster struct {
	Servers []*Server
	hubs    []*program
	archive *ClickHouse
}

// StartCluster starts so many servers, with the programs in one folder and their files in another.
// What it has started ends with Stop, also after an error.
func StartCluster(ctx context.Context, bin, folder string, servers int) (c *Cluster, err error) {
	c = &Cluster{}
	if bin, err = filepath.Abs(bin); err != nil {
		return c, err
	}
	if c.archive, err = StartClickHouse(ctx, filepath.Join(folder, "clickhouse")); err != nil {
		return c, err
	}
	data := func(n int) string { return filepath.Join(folder, fmt.Sprintf("server%d", n+1)) }
	urls, err := c.startHubs(ctx, bin, data(0), folder)
	if err != nil {
		return c, err
	}
	for n := range servers {
		if n > 0 {
			if err := copyAuthority(data(0), data(n)); err != nil {
				return c, err
			}
		}
		s, err := StartServer(filepath.Join(bin, "pillion-server"), data(n), "",
			"--nats", urls, "--archive", c.archive.Cluster.URL("pillion"), "--no-oml", "--metrics-open")
		if err != nil {
			return c, err
		}
		c.Servers = append(c.Servers, s)
	}
	return c, nil
}

// startHubs configures and starts the hubs, with certificates of the authority in a data directory,
// and returns their URLs.
func (c *Cluster) startHubs(ctx context.Context, bin, data, folder string) (string, error) {
	var clients, routes [hubs]string
	for i := range hubs {
		for _, address := range []*string{&clients[i], &routes[i]} {
			var err error
			if *address, err = FreeAddress(); err != nil {
				return "", err
			}
		}
	}
	for i := range hubs {
		name := fmt.Sprintf("hub%d", i+1)
		out := filepath.Join(folder, name)
		arguments := []string{
			"nats", name, "--data", data, "--out", out, "--host", "127.0.0.1", "--listen", clients[i], "--cluster-listen", routes[i], "--leaf-listen", "",
		}
		for j, route := range routes {
			if j != i {
				arguments = append(arguments, "--route", route)
			}
		}
		if said, err := exec.CommandContext(ctx, filepath.Join(bin, "pillion-server"), arguments...).CombinedOutput(); err != nil {
			return "", fmt.Errorf("configure %s: %w: %s", name, err, said)
		}
		hub, err := startProgram(out, filepath.Join(bin, "nats-server"), "-c", "nats.conf")
		if err != nil {
			return "", fmt.Errorf("start %s: %w", name, err)
		}
		c.hubs = append(c.hubs, hub)
	}
	for i, hub := range c.hubs { // all run: they need a majority
		if err := hub.accepts(ctx, clients[i]); err != nil {
			return "", err
		}
	}
	return "tls://" + strings.Join(clients[:], ",tls://"), nil
}

// copyAuthority gives a server the keys of the first one.
func copyAuthority(from, to string) error {
	const file = "authority/authority.pem"
	text, err := os.ReadFile(filepath.Join(from, file))
	if err == nil {
		err = errors.Join(os.MkdirAll(filepath.Join(to, "authority"), 0o700), os.WriteFile(filepath.Join(to, file), text, 0o600))
	}
	if err != nil {
		return fmt.Errorf("copy authority: %w", err)
	}
	return nil
}

// Addresses are the addresses of the servers' APIs, separated by commas.
func (c *Cluster) Addresses() string {
	var all []string
	for _, s := range c.Servers {
		all = append(all, s.Address)
	}
	return strings.Join(all, ",")
}

// Processes are the process ids by name: server1, hub1, clickhouse and so on.
func (c *Cluster) Processes() map[string]int {
	ids := map[string]int{"clickhouse": c.archive.program.command.Process.Pid}
	for i, s := range c.Servers {
		ids[fmt.Sprintf("server%d", i+1)] = s.Command.Process.Pid
	}
	for i, hub := range c.hubs {
		ids[fmt.Sprintf("hub%d", i+1)] = hub.command.Process.Pid
	}
	return ids
}

// Stop ends all programs, those first that depend on others.
func (c *Cluster) Stop() {
	for _, s := range c.Servers {
		s.Stop()
	}
	for _, hub := range c.hubs {
		hub.stop()
	}
	if c.archive != nil {
		c.archive.Stop()
	}
}
