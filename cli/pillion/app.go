package pillion

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"pillion.dev/api"
	"pillion.dev/cli/terminal"
	"pillion.dev/internal/outfile"
	"pillion.dev/internal/version"
)

// connection are the global options.
type connection struct {
	Server        string        `env:"PILLION_SERVER" placeholder:"HOST" help:"Server: HOST, HOST:PORT or https://HOST:PORT; default: from the configuration file, or localhost:8470."`
	Token         string        `env:"PILLION_TOKEN" placeholder:"TOKEN" help:"Token. Prefer the environment or --token-file: other users can see command lines."`
	TokenFile     string        `env:"PILLION_TOKEN_FILE" placeholder:"FILE" type:"path" predictor:"file" help:"File that contains the token."`
	CA            string        `name:"ca" env:"PILLION_CA" placeholder:"FILE" type:"path" predictor:"file" help:"Certificate of the server's certificate authority (PEM), trusted instead of the system's authorities."`
	CAFingerprint string        `name:"ca-fingerprint" env:"PILLION_CA_FINGERPRINT" placeholder:"HEX" help:"SHA-256 fingerprint of the authority's certificate, trusted instead of the system's authorities."`
	Config        string        `env:"PILLION_CONFIG" placeholder:"FILE" type:"path" predictor:"file" help:"Configuration file; default: ~/.config/pillion/config.yaml."`
	Timeout       time.Duration `default:"30s" env:"PILLION_TIMEOUT" help:"Timeout of a request (${default})."`
	Output        string        `short:"o" env:"PILLION_OUTPUT" enum:",table,json,csv" default:"" placeholder:"FORMAT" help:"Output format: table, json or csv."`
	NoColor       bool          `help:"Disable colours, like NO_COLOR in the environment."`
}

// app is what commands work with.
type app struct {
	flags  *connection
	config config
	out    io.Writer
	err    io.Writer
	in     *os.File
	// format is table, json or csv.
	format string
	color  bool
	client *api.Client
}

func newApp(flags *connection) (*app, error) {
	a := &app{flags: flags, out: os.Stdout, err: os.Stderr, in: os.Stdin}
	var err error
	if a.config, err = readConfig(flags.configPath(), flags.Config != ""); err != nil {
		return nil, err
	}
	a.format = cmp.Or(flags.Output, a.config.Output, "table")
	a.color = !flags.NoColor && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" &&
		terminal.Is(os.Stdout) && (a.config.Color == nil || *a.config.Color)
	if a.config.Token != "" && a.config.readable {
		a.note("other users can read the token in %s: run chmod 600 on it", flags.configPath())
	}
	return a, nil
}

func (a *app) close() {
	if a.client != nil {
		a.client.Close()
	}
}

// note prints a message to standard error.
func (a *app) note(format string, values ...any) {
	fmt.Fprintf(a.err, "pillion: %s\n", clean(fmt.Sprintf(format, values...)))
}

// done confirms an action, unless the output is for programs, which have the exit code.
func (a *app) done(format string, values ...any) error {
	if a.format != "table" {
		return nil
	}
	_, err := fmt.Fprintln(a.out, clean(fmt.Sprintf(format, values...)))
	return err
}

// written confirms a file, unless that is where the output goes.
func (a *app) written(file outfile.Path, format string, values ...any) error {
	if file.IsStdout() {
		return nil
	}
	return a.done(format, values...)
}

// dial returns the client of the selected server.
func (a *app) dial() (*api.Client, error) {
	if a.client != nil {
		return a.client, nil
	}
	options, err := a.clientOptions()
	if err != nil {
		return nil, err
	}
	if a.client, err = api.NewClient(options); err != nil {
		return nil, fmt.Errorf("%w: %w", errValue, err)
	}
	return a.client, nil
}

// clientOptions combines flags, environment, configuration file and the files of a
// server on this machine. Settings that the configuration file has for one server,
// above all its token, are never used for another.
func (a *app) clientOptions() (api.ClientOptions, error) {
	o := api.ClientOptions{
		Server:    cmp.Or(a.flags.Server, a.config.Server, "localhost:"+api.DefaultPort),
		Timeout:   a.flags.Timeout,
		UserAgent: "pillion/" + version.Short(),
	}
	server, err := api.ParseServer(o.Server)
	if err != nil {
		return o, fmt.Errorf("%w: %w", errValue, err)
	}
	authority := a.flags.CA
	o.Fingerprint = a.flags.CAFingerprint
	ours := a.config.isOf(server)
	if authority == "" && o.Fingerprint == "" && ours {
		authority, o.Fingerprint = expandHome(a.config.CA), a.config.CAFingerprint
	}
	if authority != "" {
		if o.Authority, err = os.ReadFile(authority); err != nil {
			return o, fmt.Errorf("read certificate of the authority: %w", err)
		}
	}
	if o.Token, err = a.token(server, ours); err != nil {
		return o, err
	}
	if o.Token != "" {
		return o, a.requireTLS(&o, server)
	}
	if !api.Loopback(server.Hostname()) {
		return o, nil
	}
	return o, useAdminToken(&o, server)
}

// requireTLS lets a token go only to who has a certificate, on loopback too: any user can
// listen on a port there. Without another authority that beside the token's file or of the
// server on this machine is trusted, and the system's.
func (a *app) requireTLS(o *api.ClientOptions, server *url.URL) error {
	if strings.HasPrefix(o.Server, "http://") {
		return fmt.Errorf("read server %q: %w: a token is not sent without TLS; leave http:// out", o.Server, errValue)
	}
	o.Server = "https://" + server.Host
	if len(o.Authority) > 0 || o.Fingerprint != "" || !api.Loopback(server.Hostname()) {
		return nil
	}
	for _, path := range append([]string{a.flags.TokenFile}, adminTokens(server)...) {
		if path == "" {
			continue
		}
		authority, err := authorityBeside(path)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
			continue
		}
		o.Authority = authority
		return err
	}
	return nil
}

// token returns the token from the flag or environment, a token file or the
// configuration file.
func (a *app) token(server *url.URL, ours bool) (string, error) {
	fileFlag := a.flags.TokenFile != "" && a.flags.TokenFile != os.Getenv("PILLION_TOKEN_FILE")
	if a.flags.Token != "" && (!fileFlag || a.flags.Token != os.Getenv("PILLION_TOKEN")) {
		return checkToken(a.flags.Token, "--token")
	}
	if a.flags.TokenFile != "" {
		return readToken(a.flags.TokenFile)
	}
	if ours && a.config.Token != "" {
		return checkToken(a.config.Token, "token in "+a.flags.configPath())
	}
	if ours && a.config.TokenFile != "" {
		return readToken(expandHome(a.config.TokenFile))
	}
	return "", nil
}

// labTokens holds the tokens of servers in labs, by the port of this machine that
// leads to them; pillion-agent lab up makes it.
const labTokens = "/run/pillion/forward"

// useAdminToken uses the administrator's token of the server on this machine, if this user can
// read it: one in a lab first, since no other server can then have the port. Any user can
// listen on a port, so the token is sent only to who has a certificate of the authority
// beside it.
func useAdminToken(o *api.ClientOptions, server *url.URL) error {
	for _, path := range adminTokens(server) {
		token, err := readToken(path)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
			continue
		}
		if err != nil {
			return err
		}
		if strings.HasPrefix(o.Server, "http://") {
			return fmt.Errorf("read server %q: %w: the token in %s is not sent without TLS; leave http:// out", o.Server, errValue, path)
		}
		o.Token, o.Server = token, "https://"+server.Host
		if len(o.Authority) > 0 || o.Fingerprint != "" {
			return nil
		}
		o.Authority, err = authorityBeside(path)
		return err
	}
	return nil
}

// adminTokens are where the administrator's token of a server on this machine can be.
func adminTokens(server *url.URL) []string {
	folder := cmp.Or(os.Getenv("PILLION_DATA"), "/var/lib/pillion-server")
	return []string{filepath.Join(labTokens, server.Port()+".token"), filepath.Join(folder, "admin.token")}
}

// authorityBeside reads the certificate of the authority in the folder of a token.
func authorityBeside(path string) ([]byte, error) {
	path, err := filepath.EvalSymlinks(path)
	var authority []byte
	if err == nil {
		authority, err = os.ReadFile(filepath.Join(filepath.Dir(path), "ca.crt"))
	}
	if err != nil {
		return nil, fmt.Errorf("read certificate of the authority: %w", err)
	}
	return authority, nil
}

func readToken(path string) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read token: %w", err)
	}
	return checkToken(string(text), path)
}

// checkToken rejects a token that cannot be sent in a header, without repeating it.
func checkToken(text, where string) (string, error) {
	token := strings.TrimSpace(text)
	if token == "" {
		return "", fmt.Errorf("read token: %w: %s is empty", errValue, where)
	}
	if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", fmt.Errorf("read token: %w: %s contains spaces or non-ASCII characters", errValue, where)
	}
	return token, nil
}
