package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strings"

	"pillion.dev/agent/view"
	"pillion.dev/cli/agent"
	"pillion.dev/cli/command"
	"pillion.dev/probe/hook"
	"pillion.dev/send/estimator"
)

type receiveCmd struct {
	Dev       string `required:"" placeholder:"DEV" help:"Network interface at which packets arrive."`
	Listen    string `required:"" placeholder:"ADDRESS[:PORT]" help:"Address at which senders connect, and no other; IPv6 with a port in brackets. The default port is 8478."`
	Netns     string `placeholder:"NAME" help:"Network namespace of the interface and the address: a name, a path, the ID of a process in it, or a host of a lab; default: the current one."`
	Lab       string `placeholder:"NAME" help:"Lab of the host given by --netns, if several are running."`
	TokenFile string `placeholder:"FILE" help:"File with a token that senders must have; default: none is required."`
	agent.RecordFlags
	JSON bool `name:"json" help:"Print JSON: one object once senders can connect."`
}

// Run serves senders until it is interrupted.
func (c *receiveCmd) Run(ctx context.Context) (err error) {
	r := estimator.Receiver{Device: c.Dev, Log: slog.New(slog.NewTextHandler(os.Stderr, nil))}
	if r.Address, err = receiverAddress("listen", c.Listen); err != nil {
		return err
	}
	if r.Token, err = readToken(c.TokenFile); err != nil {
		return err
	}
	if err := hook.NeedRoot(); err != nil {
		return err
	}
	if c.Netns != "" {
		if r.Namespace, err = agent.OpenNetns(c.Netns, c.Lab); err != nil {
			return err
		}
		defer r.Namespace.Close()
	}
	if r.Records, err = c.File().Open(estimator.RecordColumns...); err != nil {
		return err
	}
	defer func() { _, lost := r.Records.Close(); err = errors.Join(err, lost) }()
	v := view.View{Out: c.Out(), JSON: c.JSON}
	r.Ready = func(at net.Addr) {
		// The senders do not depend on this line.
		_ = v.Ready(struct {
			Address string `json:"address"`
		}{at.String()}, "receiving on %s for senders that connect to %s\n", c.Dev, at)
	}
	return r.Serve(ctx)
}

const receiverPort = "8478"

// receiverAddress reads ADDRESS[:PORT].
func receiverAddress(option, text string) (string, error) {
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		host, port = strings.Trim(text, "[]"), receiverPort
	}
	address, err := netip.ParseAddrPort(net.JoinHostPort(host, port))
	if err != nil {
		return "", fmt.Errorf("read --%s %q: %w: an address such as 192.0.2.2, 192.0.2.2:%s or [2001:db8::2]:%[4]s", option, text, command.ErrValue, receiverPort)
	}
	if address.Addr().IsUnspecified() {
		return "", fmt.Errorf("read --%s %q: %w: one address of the host, not all", option, text, command.ErrValue)
	}
	return address.String(), nil
}

func readToken(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read token: %w", err)
	}
	if text = bytes.TrimSpace(text); len(text) == 0 || len(text) > 256 {
		return "", fmt.Errorf("read token: %w: %s has %d bytes, 1 to 256 are required", command.ErrValue, path, len(text))
	}
	return string(text), nil
}
