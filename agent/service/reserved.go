package service

import (
	"bufio"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"time"

	"pillion.dev/internal/every"
)

// reserved are the addresses that this host needs to be measured at all: the addresses of the server,
// of its bus and of DNS servers. Packets to them are not marked unless a session names the
// agent that has the address.
type reserved struct {
	// urls returns the URLs of the server and its bus; connected the address of the bus that this
	// agent is connected to, HOST:PORT.
	urls      func() []string
	connected func() string
	// changed is called with the addresses, by what they are, when they have changed.
	changed func(map[netip.Addr]string)
	log     *slog.Logger

	known map[netip.Addr]string
}

// resolvers are the files that name DNS servers: the second those behind a local one.
var resolvers = []string{"/etc/resolv.conf", "/run/systemd/resolve/resolv.conf"}

const (
	reservedEvery = 30 * time.Second
	reservedTime  = 3 * time.Second
)

// run keeps the addresses up to date until the context ends.
func (r *reserved) run(ctx context.Context) {
	every.Do(ctx, reservedEvery, func() { r.refresh(ctx) })
}

// refresh looks the addresses up. What a name resolved to before stays reserved if it can no
// longer be resolved.
func (r *reserved) refresh(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, reservedTime)
	defer cancel()
	next := map[netip.Addr]string{}
	for _, path := range resolvers {
		for _, address := range nameservers(path, r.log) {
			next[address] = "a DNS server of this host"
		}
	}
	failed := false
	for _, text := range r.urls() {
		found, err := lookup(ctx, hostOf(text))
		failed = failed || err != nil
		for _, address := range found {
			next[address] = "the address of the server"
		}
	}
	if remote, err := netip.ParseAddrPort(r.connected()); err == nil {
		next[remote.Addr().Unmap().WithZone("")] = "the address of the server"
	}
	if failed {
		for address, what := range r.known {
			if _, found := next[address]; !found {
				next[address] = what
			}
		}
	}
	if r.known == nil || !maps.Equal(next, r.known) {
		r.known = next
		r.changed(next)
	}
}

// hostOf returns the host of a URL, or of HOST:PORT.
func hostOf(text string) string {
	if _, rest, found := strings.Cut(text, "://"); found {
		text = rest
	}
	if u, err := url.Parse("//" + text); err == nil {
		return u.Hostname()
	}
	return text
}

func lookup(ctx context.Context, host string) ([]netip.Addr, error) {
	if address, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{address.Unmap().WithZone("")}, nil
	}
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	for i := range found {
		found[i] = found[i].Unmap().WithZone("")
	}
	return found, err
}

// nameservers reads a file in the format of resolv.conf (5).
func nameservers(path string, log *slog.Logger) (addresses []netip.Addr) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		log.Warn("read DNS servers", "error", err)
		return nil
	}
	defer func() { _ = file.Close() }()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 2 || fields[0] != "nameserver" {
			continue
		}
		if address, err := netip.ParseAddr(fields[1]); err == nil {
			addresses = append(addresses, address.Unmap().WithZone(""))
		}
	}
	return addresses
}
