package pillion

import (
	"bufio"
	"context"
	"crypto/x509"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	"golang.org/x/term"

	"pillion.dev/api"
	"pillion.dev/api/pillionv1"
	"pillion.dev/cli/terminal"
)

type loginCmd struct {
	Address string `arg:"" name:"server" help:"Server: HOST, HOST:PORT or https://HOST:PORT."`
}

// Help explains what is asked.
func (loginCmd) Help() string {
	return `Shows the fingerprint of the server's certificate authority, to be compared with the one the server
printed, unless --ca or --ca-fingerprint is given. The token is read from --token-file, from the terminal
without echo, or from standard input. Both are saved in the configuration file, which only you can read.

Example:

  pillion login noc.example:8470`
}

// Run keeps server, fingerprint and token.
func (c *loginCmd) Run(ctx context.Context, a *app) error {
	server, err := api.ParseServer(c.Address)
	if err != nil {
		return fmt.Errorf("%w: %w", errValue, err)
	}
	if strings.HasPrefix(c.Address, "http://") {
		return fmt.Errorf("read server %q: %w: a token is not sent without TLS; leave http:// out", c.Address, errValue)
	}
	server.Scheme = "https"
	path := a.flags.configPath()
	if path == "" {
		return fmt.Errorf("log in: no directory for the configuration file: use --config FILE")
	}
	kept := config{Server: c.Address, CA: a.flags.CA, CAFingerprint: a.flags.CAFingerprint, Output: a.config.Output, Color: a.config.Color}
	var found *x509.Certificate
	if kept.CA == "" && kept.CAFingerprint == "" {
		authority, known, err := api.FetchAuthority(ctx, server)
		if err != nil {
			return err
		}
		if !known { // this system does not trust the authority anyway
			found, kept.CAFingerprint = authority, api.Fingerprint(authority)
		}
	}
	a.flags.Server, a.flags.CAFingerprint, a.config = server.String(), kept.CAFingerprint, config{}
	if err := c.reach(ctx, a); err != nil {
		return err
	}
	if found != nil {
		if err := c.confirm(a, server, found); err != nil {
			return err
		}
	}
	if kept.Token, err = c.token(a, server); err != nil {
		return err
	}
	a.flags.Token, a.flags.TokenFile = kept.Token, ""
	client, err := a.dial()
	if err != nil {
		return err
	}
	me, err := client.Server.WhoAmI(ctx, &pillionv1.WhoAmIRequest{})
	if err != nil {
		return failed("log in to "+client.URL, err)
	}
	if err := writeConfig(path, kept); err != nil {
		return err
	}
	return a.done("logged in to %s as %s (%s); saved in %s", client.URL, me.Name, me.Role, path)
}

// reach verifies the server before the user is asked for anything.
func (c *loginCmd) reach(ctx context.Context, a *app) error {
	options, err := a.clientOptions()
	if err != nil {
		return err
	}
	client, err := api.NewClient(options)
	if err != nil {
		return fmt.Errorf("%w: %w", errValue, err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	return failed("log in", client.Reach(ctx))
}

// confirm shows the fingerprint of the server's authority and asks whether it is right.
func (c *loginCmd) confirm(a *app, server *url.URL, authority *x509.Certificate) error {
	if !terminal.Is(a.in) {
		return fmt.Errorf("log in to %s: %w: the fingerprint of its authority, %s, cannot be confirmed without a terminal: use --ca-fingerprint",
			server.Host, errValue, api.Fingerprint(authority))
	}
	fmt.Fprintf(a.err, "The certificate authority of %s is %q, with fingerprint\n  %s\nDoes it match the fingerprint printed by the server? [yes/no] ",
		server.Host, clean(authority.Subject.CommonName), api.Fingerprint(authority))
	answer, err := bufio.NewReader(io.LimitReader(a.in, 100)).ReadString('\n')
	if answer = strings.ToLower(strings.TrimSpace(answer)); err != nil || answer != "yes" && answer != "y" {
		return fmt.Errorf("log in to %s: the fingerprint was not confirmed", server.Host)
	}
	return nil
}

func (c *loginCmd) token(a *app, server *url.URL) (string, error) {
	if a.flags.Token != "" || a.flags.TokenFile != "" {
		return a.token(server, false)
	}
	if !terminal.Is(a.in) {
		text, err := io.ReadAll(io.LimitReader(a.in, 1<<16))
		if err != nil {
			return "", fmt.Errorf("read token: %w", err)
		}
		return checkToken(string(text), "the standard input")
	}
	fmt.Fprintf(a.err, "Token for %s (not shown): ", server.Host)
	text, err := term.ReadPassword(int(a.in.Fd()))
	fmt.Fprintln(a.err)
	if err != nil {
		return "", fmt.Errorf("read token: %w", err)
	}
	return checkToken(string(text), "the typed token")
}
