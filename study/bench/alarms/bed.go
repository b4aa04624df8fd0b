package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"pillion.dev/lab"
	"pillion.dev/lab/receiver"
)

// Addresses of the lab: of b, and of the router on the way round.
const (
	farAddress    = "10.77.4.2"
	detourAddress = "10.77.5.2"
)

// spec has two ways from r1 to r3; packets take the first.
const spec = `
name: alarms
hosts: {a: {}, r1: {forward: true}, r2: {forward: true}, r4: {forward: true}, r3: {forward: true}, b: {}, noc: {}}
links:
  - {ends: [a, r1]}
  - {ends: [r1, r2], emulate: {seed: 1, delay: 1ms, queue: 4000}}
  - {ends: [r2, r3]}
  - {ends: [r3, b]}
  - {ends: [r1, r4]}
  - {ends: [r4, r3]}
  - {ends: [a, noc]}
  - {ends: [b, noc]}
service: {server: noc, agents: [a, b], options: [--config, %q]}
`

// Ports of the receivers in the server's host.
const (
	webhookPort = 9099
	mailPort    = 9025
)

// configuration has the built-in rules, one for paths, and both receivers.
var configuration = fmt.Sprintf(`
alarms: [{name: path, on: path}]
notify:
  - {name: hook, webhook: {url: "http://127.0.0.1:%d/"}}
  - {name: mail, email: {to: [noc@example.org], from: pillion@example.org, server: "127.0.0.1:%d", tls: none}}
`, webhookPort, mailPort)

// Traffic: two flows from a to b, one of small packets and one of large ones, which a filter can tell apart also when
// they are marked.
const (
	every      = 5 * time.Millisecond
	smallBytes = 100
	largeBytes = 600
	firstPort  = 9000
)

// bed is a lab with a session and traffic.
type bed struct {
	lab             *lab.Lab
	bin             string
	webhooks, mails *receiver.Receiver
	sockets         []net.Conn
	stop            context.CancelFunc
	sending         sync.WaitGroup
}

// build starts everything but the session.
func build(ctx context.Context, bin, folder string) (b *bed, err error) {
	config := filepath.Join(folder, "server.yaml")
	if err := os.WriteFile(config, []byte(configuration), 0o600); err != nil {
		return nil, err
	}
	parsed, err := lab.ParseSpec(fmt.Appendf(nil, spec, config))
	if err != nil {
		return nil, err
	}
	agent, err := filepath.Abs(filepath.Join(bin, "pillion-agent"))
	if err != nil {
		return nil, err
	}
	up, err := lab.Up(ctx, parsed, lab.Options{Agent: agent})
	if err != nil {
		return nil, err
	}
	b = &bed{lab: up, bin: bin, webhooks: receiver.New(), mails: receiver.New()}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.close())
		}
	}()
	if err := b.listen(); err != nil {
		return nil, err
	}
	for _, host := range []string{"r1", "r2", "r3", "r4", "b"} {
		if err := up.Do(host, answerAll); err != nil {
			return nil, fmt.Errorf("let %s answer each probe: %w", host, err)
		}
	}
	return b, b.send(context.WithoutCancel(ctx))
}

// answerAll lifts the limit on ICMP errors, so that a trace sees each hop.
func answerAll() error {
	return os.WriteFile("/proc/sys/net/ipv4/icmp_ratelimit", []byte("0"), 0o644)
}

// close takes the lab down.
func (b *bed) close() error {
	if b.stop != nil {
		b.stop()
	}
	b.sending.Wait()
	for _, socket := range b.sockets {
		socket.Close()
	}
	b.webhooks.Close()
	b.mails.Close()
	return lab.Down(context.Background(), b.lab.Spec.Name)
}

// listen starts the receivers in the server's host.
func (b *bed) listen() error {
	return b.lab.Do("noc", func() error {
		if err := b.webhooks.Listen(webhookPort, b.webhooks.ServeWebhooks); err != nil {
			return err
		}
		return b.mails.Listen(mailPort, b.mails.ServeMail)
	})
}

// send begins the traffic.
func (b *bed) send(ctx context.Context) error {
	ctx, b.stop = context.WithCancel(ctx)
	for i, size := range []int{smallBytes, largeBytes} {
		to := &net.UDPAddr{IP: net.ParseIP(farAddress), Port: firstPort + i}
		open := func(dial func() (*net.UDPConn, error)) (conn *net.UDPConn, err error) {
			if conn, err = dial(); err == nil {
				b.sockets = append(b.sockets, conn)
			}
			return conn, err
		}
		// The receiver reads nothing: its socket alone keeps the host from answering that there is none.
		if err := b.lab.Do("b", func() error {
			_, err := open(func() (*net.UDPConn, error) { return net.ListenUDP("udp", to) })
			return err
		}); err != nil {
			return fmt.Errorf("receive: %w", err)
		}
		var out *net.UDPConn
		if err := b.lab.Do("a", func() (err error) {
			out, err = open(func() (*net.UDPConn, error) { return net.DialUDP("udp", nil, to) })
			return err
		}); err != nil {
			return fmt.Errorf("send: %w", err)
		}
		b.sending.Go(func() { sendTo(ctx, out, size) })
	}
	return nil
}

func sendTo(ctx context.Context, out *net.UDPConn, size int) {
	ticks := time.NewTicker(every)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
			_, _ = out.Write(make([]byte, size)) // an error of one packet is a lost packet
		}
	}
}

// prepare starts the session, and waits until the server knows enough.
func (b *bed) prepare(ctx context.Context, chosen fault) error {
	if _, err := b.pillion(ctx, "session", "create", "--name", "alarms", "--from", "a", "--to", "b", "--trace", "5s"); err != nil {
		return err
	}
	for {
		text, err := b.pillion(ctx, "query", "-o", "json", "SELECT ("+chosen.ready+") AS ready")
		var row struct{ Ready bool }
		if err == nil {
			err = json.Unmarshal([]byte(text), &row)
		}
		if row.Ready {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("wait for rows: %w", ctx.Err()), err)
		case <-time.After(300 * time.Millisecond):
		}
	}
}

// pillion runs the command line in the server's host.
func (b *bed) pillion(ctx context.Context, arguments ...string) (string, error) {
	command := exec.CommandContext(ctx, filepath.Join(b.bin, "pillion"), append([]string{"--token-file", b.lab.TokenFile()}, arguments...)...)
	var text strings.Builder
	command.Stdout, command.Stderr = &text, &text
	err := b.lab.Start("noc", command)
	if err == nil {
		err = command.Wait()
	}
	if err != nil {
		return "", fmt.Errorf("run pillion %s: %w: %s", arguments[0], err, strings.TrimSpace(text.String()))
	}
	return text.String(), nil
}
