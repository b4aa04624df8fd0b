package server

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"time"

	_ "pillion.dev/archive/clickhouse" // registers clickhouse:
	_ "pillion.dev/archive/duckdb"     // registers duckdb:
	"pillion.dev/cli/command"
	"pillion.dev/server"
	"pillion.dev/ui"
)

type runCmd struct {
	Config             string   `help:"YAML file with settings; the command line takes precedence." type:"existingfile" placeholder:"FILE"`
	Data               string   `help:"Data directory; default: ${folder}." placeholder:"DIR" env:"PILLION_DATA"`
	HTTP               string   `name:"http" help:"Listen address of the API; default: ${http}." placeholder:"ADDR"`
	NATSListen         string   `name:"nats-listen" help:"Listen address of the bus for agents; default: ${bus}." placeholder:"ADDR"`
	NATS               string   `name:"nats" help:"Use external NATS servers at this URL instead of the embedded one." placeholder:"URL"`
	Archive            string   `help:"Archive to use; default: ${archive}, a file in the data directory; duckdb:PATH is a file elsewhere, clickhouse://USER@HOST:PORT,HOST:PORT/DATABASE a fleet's." placeholder:"URL"`
	OML                []string `name:"oml" help:"Additional listen address for instrumented applications (OML), besides ${oml}; addresses other than loopback require --oml-token-file." placeholder:"ADDR"`
	OMLToken           string   `name:"oml-token-file" help:"File with the token that applications on other hosts present." type:"existingfile" placeholder:"FILE"`
	OMLTLS             bool     `name:"oml-tls" help:"Use TLS on the addresses of --oml."`
	NoOML              bool     `name:"no-oml" help:"Do not accept reports from instrumented applications."`
	AggregateTo        string   `help:"Server of a fleet to which this server, of a site, sends flows merged by pair and window: HOST or HOST:PORT, several separated by commas." placeholder:"HOST"`
	AggregateTokenFile string   `help:"File with the join token of the fleet's server for this site, needed once." type:"existingfile" placeholder:"FILE"`
	Host               []string `help:"Additional host name or address of this server, for its certificate." placeholder:"NAME"`
	MetricsOpen        bool     `help:"Serve /metrics without a token."`
	OTLP               string   `name:"otlp" help:"Export metrics by OTLP to this collector: http://HOST:4318 or https://HOST:4318." placeholder:"URL"`
	OTLPHeadersFile    string   `name:"otlp-headers-file" help:"File with headers for the collector, such as a token, one a line." type:"existingfile" placeholder:"FILE"`
	ReverseDNS         bool     `name:"reverse-dns" help:"Show names of routers in the topology by reverse DNS; the addresses of traced routers are sent to the name servers of this host."`
	Debug              bool     `help:"Log debug messages."`
}

// Run serves until interrupted.
func (c *runCmd) Run(ctx context.Context) error {
	config, err := c.settings()
	if err != nil {
		return err
	}
	return server.Run(ctx, config, ui.Files(), command.Log(c.Debug), func(w server.Welcome) {
		welcome(os.Stdout, w, reachable(w.HTTP, config.Hosts))
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
	config.Folder, config.HTTP = cmp.Or(c.Data, config.Folder), cmp.Or(c.HTTP, config.HTTP)
	config.NATSListen, config.NATS = cmp.Or(c.NATSListen, config.NATSListen), cmp.Or(c.NATS, config.NATS)
	config.Archive = cmp.Or(c.Archive, config.Archive)
	config.OML = append(config.OML, c.OML...)
	config.OMLTLS = config.OMLTLS || c.OMLTLS
	config.OMLOff = config.OMLOff || c.NoOML
	config.OMLToken = cmp.Or(c.OMLToken, config.OMLToken)
	config.Hosts = append(config.Hosts, c.Host...)
	config.AggregateTo.Server = cmp.Or(c.AggregateTo, config.AggregateTo.Server)
	config.AggregateTo.TokenFile = cmp.Or(c.AggregateTokenFile, config.AggregateTo.TokenFile)
	config.OTLP.URL = cmp.Or(c.OTLP, config.OTLP.URL)
	config.OTLP.HeadersFile = cmp.Or(c.OTLPHeadersFile, config.OTLP.HeadersFile)
	config.Join = joinFleet
	config.ReverseDNS = config.ReverseDNS || c.ReverseDNS
	config.MetricsOpen = config.MetricsOpen || c.MetricsOpen
	return config, nil
}

// reachable returns the host:port at which other hosts reach the server. The host is the listen address if that is
// specific, else the first of hosts, else the first global unicast address of this machine: other hosts may not be able
// to resolve the machine's own name.
func reachable(listen string, hosts []string) string {
	host, port, _ := net.SplitHostPort(listen)
	if ip := net.ParseIP(host); ip == nil || ip.IsUnspecified() {
		host = "ADDRESS-OF-THIS-HOST"
		addresses, _ := net.InterfaceAddrs()
		for _, address := range addresses {
			if prefix, ok := address.(*net.IPNet); ok && prefix.IP.IsGlobalUnicast() {
				host = prefix.IP.String()
				break
			}
		}
		host = append(slices.Clone(hosts), host)[0]
	}
	return net.JoinHostPort(host, port)
}

// welcome prints the next steps. It prints the paths of the files with secrets rather than the secrets.
func welcome(out io.Writer, w server.Welcome, address string) {
	_, port, _ := net.SplitHostPort(w.HTTP)
	fmt.Fprintf(out, "pillion-server is running: API at %s, bus for agents at %s\n", w.HTTP, w.Bus)
	if w.First {
		fmt.Fprintf(out, `
First start, %s. Created:
  %s   administrator token, for users and programs
  %s       join token, for hosts, valid for 7 days
  certificate authority   SHA-256 %s

Join a host (run there, as root, with a copy of join.token):
  pillion-agent run --server %s --token-file join.token

Open the page in a browser on this machine: http://localhost:%s, with the administrator token

Use the command line (on this machine):
  pillion --server localhost:%s --token-file %s agents
  pillion --server localhost:%s --token-file %s session create --name first --from '*' --to '*'

`, time.Now().Format(time.RFC1123), w.AdminFile, w.JoinFile, w.Fingerprint, address, port, port, w.AdminFile, port, w.AdminFile)
	}
	fmt.Fprintln(out, "ready")
}
