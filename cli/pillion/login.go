package pillion

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/url"
	"strings"

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
	if kept.CA == "" && kept.CAFingerprint == "" {
		if kept.CAFingerprint, err = c.fingerprint(ctx, a, server); err != nil {
			return err
		}
	}
	if kept.Token, err = c.token(a, server); err != nil {
		return err
	}
	a.flags.Server, a.flags.CAFingerprint, a.flags.Token = c.Address, kept.CAFingerprint, kept.Token
	a.flags.TokenFile, a.config = "", config{}
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

// fingerprint shows that of the server's authority and asks whether it is right.
func (c *loginCmd) fingerprint(ctx context.Context, a *app, server *url.URL) (string, error) {
	authority, known, err := api.FetchAuthority(ctx, server)
	if err != nil {
		return "", err
	}
	if known {
		return "", nil // this system trusts the authority anyway
	}
	found := api.Fingerprint(authority)
	if !terminal.Is(a.in) {
		return "", fmt.Errorf("log in to %s: %w: the fingerprint of its authority, %s, cannot be confirmed without a terminal: use --ca-fingerprint",
			server.Host, errValue, found)
	}
	fmt.Fprintf(a.err, "The certificate authority of %s is %q, with fingerprint\n  %s\nDoes it match the fingerprint printed by the server? [yes/no] ",
		server.Host, clean(authority.Subject.CommonName), found)
	answer, err := bufio.NewReader(io.LimitReader(a.in, 100)).ReadString('\n')
	if err != nil || strings.TrimSpace(answer) != "yes" {
		return "", fmt.Errorf("log in to %s: the fingerprint was not confirmed", server.Host)
	}
	return found, nil
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
