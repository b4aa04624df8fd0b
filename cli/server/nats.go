package server

import (
	"cmp"
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"pillion.dev/bus"
	"pillion.dev/internal/outfile"
	"pillion.dev/server"
	"pillion.dev/server/authority"
)

// natsCmd writes the configuration and the certificate of one node of an external NATS cluster, or of the leaf node
// of a site.
type natsCmd struct {
	Name          string   `arg:"" help:"Name of the node, different on each."`
	Host          []string `required:"" help:"Host name or address by which agents, servers and other nodes reach the node; repeatable." placeholder:"NAME"`
	Route         []string `help:"Address of another node's --cluster-listen; repeatable. Without any, the node is alone." placeholder:"HOST:PORT" xor:"role"`
	Leaf          bool     `help:"Write a leaf instead: the NATS server of a site, which connects to the hubs."`
	Hub           []string `help:"Address of a hub's --leaf-listen, with --leaf; repeatable." placeholder:"HOST:PORT" xor:"role"`
	Agent         []string `help:"Agent that may connect; repeatable. Without any, servers say which agents may connect. With --leaf: agent for which the leaf may speak; without any, for all." placeholder:"NAME"`
	Listen        string   `default:"0.0.0.0:4222" help:"Listen address for agents and servers (${default})." placeholder:"ADDR"`
	ClusterListen string   `default:"0.0.0.0:6222" help:"Listen address for other nodes (${default})." placeholder:"ADDR"`
	LeafListen    string   `default:"0.0.0.0:7422" help:"Listen address for leaves (${default}); empty: none." placeholder:"ADDR"`
	Data          string   `help:"Data directory of a pillion-server, whose authority issues the certificate; created if it is missing. Default: ${folder}." placeholder:"DIR" env:"PILLION_DATA"`
	Out           string   `required:"" help:"Folder for the files of the node." placeholder:"DIR"`
}

const natsFile = "nats.conf"

// Run writes the files and prints the command that starts the node.
func (c *natsCmd) Run(ctx context.Context) error {
	out, err := filepath.Abs(c.Out)
	if err != nil {
		return fmt.Errorf("find folder of the node: %w", err)
	}
	keys, err := authority.OpenKeys(cmp.Or(c.Data, server.DefaultFolder), authority.Options{})
	if err != nil {
		return err
	}
	write := c.hub
	if c.Leaf {
		write = c.leaf
	} else if len(c.Hub) > 0 {
		return errors.New("write files of the node: --hub is for --leaf; other nodes are --route")
	}
	text, certificate, err := write(keys, out)
	if err != nil {
		return err
	}
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: keys.Certificate()})
	path := filepath.Join(out, natsFile)
	err = os.MkdirAll(out, 0o700)
	for _, file := range []struct {
		name string
		text []byte
	}{{bus.NodeFile, certificate}, {bus.AuthorityFile, ca}, {natsFile, []byte(text)}} {
		if err == nil {
			err = outfile.Path(filepath.Join(out, file.name)).Replace(ctx, 0o600, func(to *os.File) error {
				_, err := to.Write(file.text)
				return err
			})
		}
	}
	if err != nil {
		return fmt.Errorf("write files of the node: %w", err)
	}
	fmt.Printf("Wrote the configuration, certificate and key of the node %s. On its host, start it with:\n  nats-server -c %s\n", c.Name, path)
	return nil
}

// hub returns the configuration of a node of the cluster, and its certificate with the private key, as PEM.
func (c *natsCmd) hub(keys *authority.Authority, folder string) (config string, certificate []byte, err error) {
	hub := bus.Hub{Name: c.Name, Listen: c.Listen, ClusterListen: c.ClusterListen, Routes: c.Route, Folder: folder, Agents: c.Agent}
	if len(c.Agent) == 0 {
		hub.LeafListen = c.LeafListen
		if hub.Secret, err = keys.BusSecret(); err != nil {
			return "", nil, err
		}
	}
	if config, err = hub.Config(); err == nil {
		certificate, err = keys.IssueNode(c.Host)
	}
	return config, certificate, err
}

// leaf returns the configuration of the leaf node of a site, and its certificate with the private key, as PEM.
func (c *natsCmd) leaf(keys *authority.Authority, folder string) (config string, certificate []byte, err error) {
	leaf := bus.Leaf{Name: c.Name, Listen: c.Listen, Hubs: c.Hub, Folder: folder}
	if leaf.Secret, err = keys.BusSecret(); err != nil {
		return "", nil, err
	}
	if config, err = leaf.Config(); err == nil {
		certificate, err = keys.IssueLeaf(c.Name, c.Host, c.Agent)
	}
	return config, certificate, err
}
