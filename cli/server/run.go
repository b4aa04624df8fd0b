package server

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"time"

	"pillion.dev/archive"
	"pillion.dev/archive/duckdb"
	"pillion.dev/cli/command"
	"pillion.dev/server"
	"pillion.dev/ui"
)

type runCmd struct {
	Config      string   `help:"Read these settings from a YAML file; the command line wins." type:"existingfile" placeholder:"FILE"`
	Data        string   `help:"Folder that holds everything; default ${folder}." placeholder:"DIR" env:"PILLION_DATA"`
	HTTP        string   `name:"http" help:"Address of the API; default ${http}." placeholder:"ADDR"`
	NATSListen  string   `name:"nats-listen" help:"Address of the bus for agents; default ${bus}." placeholder:"ADDR"`
	NATS        string   `name:"nats" help:"Use the NATS servers at this URL instead of one of our own." placeholder:"URL"`
	OML         []string `name:"oml" help:"Another address for instrumented applications (OML), besides ${oml}; one that others reach needs --oml-token-file." placeholder:"ADDR"`
	OMLToken    string   `name:"oml-token-file" help:"File with the token that applications of other hosts show." type:"existingfile" placeholder:"FILE"`
	OMLTLS      bool     `name:"oml-tls" help:"Applications use TLS on the addresses of --oml."`
	NoOML       bool     `name:"no-oml" help:"Take nothing from instrumented applications."`
	Host        []string `help:"Another name or address by which this server is reached." placeholder:"NAME"`
	MetricsOpen bool     `help:"Serve /metrics without a token."`
	Debug       bool     `help:"Log more."`
}

// Run serves until it is told to end.
func (c *runCmd) Run(ctx context.Context) error {
	config, err := c.settings()
	if err != nil {
		return err
	}
	return server.Run(ctx, config, server.Parts{Archive: openArchive, Page: ui.Files()}, command.Log(c.Debug), func(w server.Welcome) {
		welcome(os.Stdout, w)
		command.Notify("READY=1")
	})
}

func (c *runCmd) settings() (server.Config, error) {
	var config server.Config
	if c.Config != "" {
		var err error
		if config, err = server.ReadConfig(c.Config); err != nil {
			return config, err
		}
	}
	for _, set := range []struct {
		to   *string
		from string
	}{{&config.Folder, c.Data}, {&config.HTTP, c.HTTP}, {&config.NATSListen, c.NATSListen}, {&config.NATS, c.NATS}} {
		if set.from != "" {
			*set.to = set.from
		}
	}
	config.OML = append(config.OML, c.OML...)
	config.OMLTLS = config.OMLTLS || c.OMLTLS
	config.OMLOff = config.OMLOff || c.NoOML
	if c.OMLToken != "" {
		config.OMLToken = c.OMLToken
	}
	config.Hosts = append(config.Hosts, c.Host...)
	config.MetricsOpen = config.MetricsOpen || c.MetricsOpen
	return config, nil
}

func openArchive(folder string, config server.Config) (archive.Archive, error) {
	return duckdb.Open(filepath.Join(folder, "archive.duckdb"), duckdb.Options{Memory: int64(config.MemoryBytes)})
}

// welcome says how to go on. Secrets stay in their files.
func welcome(out io.Writer, w server.Welcome) {
	_, port, _ := net.SplitHostPort(w.HTTP)
	host, err := os.Hostname()
	if err != nil {
		host = "THIS-HOST"
	}
	fmt.Fprintf(out, "pillion-server works: API at %s, bus for agents at %s\n", w.HTTP, w.Bus)
	if w.First {
		fmt.Fprintf(out, `
First start, %s. It has made:
  %s   the token of an administrator, for users and programs
  %s       the token with which hosts join
  certificate authority   SHA-256 %s

Let a host join (as root, there):
  pillion-agent run --server %s:%s --token "$(cat join.token)"

Look, in a browser here: http://localhost:%s, with that token of an administrator

Ask (here):
  pillion --server localhost:%s --token-file %s agents
  pillion --server localhost:%s --token-file %s session create --name first --from '*' --to '*'

`, time.Now().Format(time.RFC1123), w.OperatorFile, w.JoinFile, w.Fingerprint, host, port, port, port, w.OperatorFile, port, w.OperatorFile)
	}
	fmt.Fprintln(out, "ready")
}
