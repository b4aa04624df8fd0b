package lab

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"pillion.dev/internal/clickhouse"
	"pillion.dev/internal/netns"
)

// Fleet is several servers on a NATS cluster and a ClickHouse cluster, instead of one server
// with an embedded bus and archive.
type Fleet struct {
	// Servers are the hosts of pillion-servers.
	Servers []string `yaml:"servers"`
	// Hubs are the hosts of the nodes of the NATS cluster.
	Hubs []string `yaml:"hubs"`
	// Leaves are the hosts of the NATS servers of sites, with the hosts of their agents, which use
	// the hubs while the leaf is away.
	Leaves map[string][]string `yaml:"leaves"`
	// Shards are the hosts of ClickHouse servers: the replicas of each shard.
	Shards [][]string `yaml:"shards"`
	// Coordination is the host of ZooKeeper.
	Coordination string `yaml:"coordination"`
}

//go:embed fleet.yaml
var fleetText []byte

// FleetExample is the spec of fleet.yaml, without the commands of its hosts.
func FleetExample() (*Spec, error) {
	spec, err := ParseSpec(fleetText)
	if err != nil {
		return nil, err
	}
	for name, host := range spec.Hosts {
		host.Run = nil
		spec.Hosts[name] = host
	}
	return spec, nil
}

// Ports of the programs of a fleet, each on its host's own address.
const (
	hubPort          = 4222
	routePort        = 6222
	leafPort         = 7422
	clickhousePort   = 9000
	clickhouseHTTP   = 8123
	interserverPort  = 9009
	coordinationPort = 2181
)

// fleetGrace is how long a program of a fleet may take until it accepts connections.
const fleetGrace = 60 * time.Second

// validateFleet returns the first thing that is wrong with it.
func (s *Spec) validateFleet() error {
	f := s.Service.Fleet
	path := "$.service.fleet"
	if len(f.Servers) == 0 || len(f.Hubs) == 0 || len(f.Shards) == 0 || f.Coordination == "" {
		return faultf(path, "fleet: servers, hubs, shards and coordination are required")
	}
	hosts := slices.Concat(f.Servers, f.Hubs, slices.Concat(f.Shards...), []string{f.Coordination})
	for host, agents := range f.Leaves {
		hosts = append(append(hosts, host), agents...)
	}
	for _, host := range hosts {
		if _, ok := s.Hosts[host]; !ok {
			return faultf(path, "fleet: %q is no host", host)
		}
	}
	for what, list := range map[string][]string{"servers": f.Servers, "hubs": f.Hubs, "shards": slices.Concat(f.Shards...)} {
		if sorted := slices.Sorted(slices.Values(list)); len(slices.Compact(sorted)) != len(list) {
			return faultf(path+"."+what, "fleet: a host is listed twice in %s", what)
		}
	}
	return nil
}

// on names the programs on a host, in the order in which they start.
func (f *Fleet) on(host string) (names []string) {
	for _, part := range []struct {
		prefix string
		hosts  []string
	}{{"clickhouse-", slices.Concat(f.Shards...)}, {"hub-", f.Hubs}, {serverName(""), f.Servers}, {leafName(""), slices.Collect(maps.Keys(f.Leaves))}} {
		if slices.Contains(part.hosts, host) {
			names = append(names, part.prefix+host)
		}
	}
	if f.Coordination == host {
		names = append([]string{coordination}, names...)
	}
	return names
}

// startFleet starts the clusters, then the servers.
func (b *builder) startFleet(ctx context.Context) error {
	archive, err := b.startArchive(ctx)
	if err != nil {
		return err
	}
	if err := b.startHubs(ctx); err != nil {
		return err
	}
	hubs, err := b.busURL(b.spec.Service.Fleet.Hubs)
	if err != nil {
		return err
	}
	for i, host := range b.spec.Service.Fleet.Servers {
		if i > 0 {
			if err := b.copyAuthority(host); err != nil {
				return err
			}
		}
		name := serverName(host)
		arguments := append([]string{
			"run", "--data", b.state.path(name), "--http", fmt.Sprintf(":%d", servicePort), "--nats", hubs, "--archive", archive,
		}, b.spec.Service.Options...)
		if err := b.startInHost(ctx, host, name, program(b.agent, "pillion-server"), arguments...); err != nil {
			return err
		}
	}
	return b.startLeaves(ctx) // servers say whether they may connect
}

// coordination is the name of ZooKeeper in the state folder.
const coordination = "coordination"

// serverName is the name of a server of a fleet in the state folder.
func serverName(host string) string { return "server-" + host }

// startArchive starts ClickHouse and its coordination service, and returns the URL of the archive.
func (b *builder) startArchive(ctx context.Context) (string, error) {
	f := b.spec.Service.Fleet
	cluster := &clickhouse.Cluster{}
	address, err := b.addrPort(f.Coordination, coordinationPort)
	if err != nil {
		return "", err
	}
	cluster.Coordination = address
	for _, replicas := range f.Shards {
		var nodes []clickhouse.Node
		for _, host := range replicas {
			address, err := b.addrPort(host, clickhousePort)
			if err != nil {
				return "", err
			}
			nodes = append(nodes, clickhouse.Node{Address: address, HTTP: clickhouseHTTP, Interserver: interserverPort})
		}
		cluster.Shards = append(cluster.Shards, nodes)
	}
	command, err := cluster.WriteCoordination(b.state.path(coordination))
	if err == nil {
		err = b.startListener(ctx, f.Coordination, coordination, cluster.Coordination, clickhouse.Coordinates, command)
	}
	if err != nil {
		return "", err
	}
	for i, replicas := range f.Shards {
		for j, host := range replicas {
			name := "clickhouse-" + host
			command, err := cluster.WriteNode(b.state.path(name), i, j)
			if err == nil {
				err = b.startListener(ctx, host, name, cluster.Shards[i][j].Address, nil, command)
			}
			if err != nil {
				return "", err
			}
		}
	}
	return cluster.URL("pillion"), nil
}

func (b *builder) addrPort(host string, port uint16) (netip.AddrPort, error) {
	text, err := b.spec.addressOf(host)
	if err != nil {
		return netip.AddrPort{}, err
	}
	address, err := netip.ParseAddr(text)
	return netip.AddrPortFrom(address, port), err
}

// startListener starts a program that is not Pillion's on a host, and waits until it is ready, as
// accepts does.
func (b *builder) startListener(ctx context.Context, host, name string, address netip.AddrPort, ready func(net.Conn) error, command []string) error {
	path, err := exec.LookPath(command[0])
	if err != nil {
		return fmt.Errorf("start %s on %s: %w; .ci/install test installs it", name, host, err)
	}
	if err := b.startInHost(ctx, host, name, path, command[1:]...); err != nil {
		return err
	}
	return b.accepts(ctx, host, name, address, ready)
}

// accepts waits until a program on a host accepts connections, and until ready, if there is one,
// has no error for one of them.
func (b *builder) accepts(ctx context.Context, host, name string, address netip.AddrPort, ready func(net.Conn) error) error {
	ctx, cancel := context.WithTimeout(ctx, fleetGrace)
	defer cancel()
	retry := time.NewTicker(20 * time.Millisecond)
	defer retry.Stop()
	for {
		err := netns.Do(namespace(b.spec.Name, host), func() error {
			connection, err := net.DialTimeout("tcp", address.String(), time.Second)
			if err != nil {
				return err
			}
			defer connection.Close()
			if ready == nil {
				return nil
			}
			return ready(connection)
		})
		if err == nil {
			return nil
		}
		if _, alive := b.state.process(name); !alive {
			return fmt.Errorf("wait for %s on %s: %w", name, host, b.said(name, errors.New("it ended")))
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for %s on %s: %w", name, host, b.said(name, err))
		case <-retry.C:
		}
	}
}

// copyAuthority gives a server the keys of the first one: without them it cannot reach the bus.
func (b *builder) copyAuthority(host string) error {
	from := filepath.Join(b.state.path(serverName(b.spec.Service.Fleet.Servers[0])), "authority", "authority.pem")
	text, err := os.ReadFile(from)
	if err != nil {
		return fmt.Errorf("copy authority to %s: %w", host, err)
	}
	folder := filepath.Join(b.state.path(serverName(host)), "authority")
	if err := errors.Join(os.MkdirAll(folder, 0o700), os.WriteFile(filepath.Join(folder, "authority.pem"), text, 0o600)); err != nil {
		return fmt.Errorf("copy authority to %s: %w", host, err)
	}
	return nil
}
