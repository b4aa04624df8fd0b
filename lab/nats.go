package lab

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// leafName is the name of a site's NATS server in the state folder.
func leafName(host string) string { return "leaf-" + host }

// busURL is the URL of NATS nodes on hosts.
func (b *builder) busURL(hosts []string) (string, error) {
	var urls []string
	for _, host := range hosts {
		address, err := b.spec.addressOf(host)
		if err != nil {
			return "", err
		}
		urls = append(urls, "tls://"+net.JoinHostPort(address, fmt.Sprint(hubPort)))
	}
	return strings.Join(urls, ","), nil
}

// startHubs starts the nodes of the NATS cluster, all before one is waited for: they need a
// majority.
func (b *builder) startHubs(ctx context.Context) error {
	f := b.spec.Service.Fleet
	data := b.state.serverFolder(b.spec.Service)
	var addresses []netip.AddrPort
	for _, host := range f.Hubs {
		address, err := b.addrPort(host, hubPort)
		if err != nil {
			return err
		}
		addresses = append(addresses, address)
	}
	for i, host := range f.Hubs {
		name := "hub-" + host
		address := addresses[i].Addr().String()
		arguments := []string{
			"nats", host, "--data", data, "--out", b.state.path(name), "--host", address,
			"--listen", addresses[i].String(), "--cluster-listen", net.JoinHostPort(address, fmt.Sprint(routePort)),
			"--leaf-listen", net.JoinHostPort(address, fmt.Sprint(leafPort)),
		}
		for j, other := range addresses {
			if j != i {
				arguments = append(arguments, "--route", net.JoinHostPort(other.Addr().String(), fmt.Sprint(routePort)))
			}
		}
		if err := b.startNATS(ctx, host, name, arguments...); err != nil {
			return err
		}
	}
	for i, host := range f.Hubs {
		if err := b.accepts(ctx, host, "hub-"+host, addresses[i], nil); err != nil {
			return err
		}
	}
	return nil
}

// startLeaves starts the NATS servers of sites.
func (b *builder) startLeaves(ctx context.Context) error {
	f := b.spec.Service.Fleet
	for _, host := range slices.Sorted(maps.Keys(f.Leaves)) {
		address, err := b.addrPort(host, hubPort)
		if err != nil {
			return err
		}
		name := leafName(host)
		arguments := []string{
			"nats", host, "--leaf", "--data", b.state.serverFolder(b.spec.Service), "--out", b.state.path(name),
			"--host", address.Addr().String(), "--listen", address.String(),
		}
		for _, hub := range f.Hubs {
			address, err := b.addrPort(hub, leafPort)
			if err != nil {
				return err
			}
			arguments = append(arguments, "--hub", address.String())
		}
		for _, agent := range f.Leaves[host] {
			arguments = append(arguments, "--agent", agent)
		}
		if err := b.startNATS(ctx, host, name, arguments...); err != nil {
			return err
		}
		if err := b.accepts(ctx, host, name, address, nil); err != nil {
			return err
		}
	}
	return nil
}

// startNATS configures a NATS server and starts it.
func (b *builder) startNATS(ctx context.Context, host, name string, arguments ...string) error {
	if said, err := exec.CommandContext(ctx, program(b.agent, "pillion-server"), arguments...).CombinedOutput(); err != nil {
		return fmt.Errorf("configure %s: %w: %s", name, err, said)
	}
	return b.startInHost(ctx, host, name, program(b.agent, "nats-server"), "-c", filepath.Join(b.state.path(name), "nats.conf"))
}

// busOf are the arguments of an agent of a site: its leaf, then the hubs.
func (b *builder) busOf(agent string) ([]string, error) {
	f := b.spec.Service.Fleet
	if f == nil {
		return nil, nil
	}
	for host, agents := range f.Leaves {
		if slices.Contains(agents, agent) {
			url, err := b.busURL(append([]string{host}, f.Hubs...))
			return []string{"--bus", url}, err
		}
	}
	return nil, nil
}
