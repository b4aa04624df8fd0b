package pillion

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"strings"
	"syscall"

	"connectrpc.com/connect"

	"pillion.dev/api"
	"pillion.dev/omsp/scaffold"
)

var (
	// errUsage marks a command line that is not understood, errValue one that is
	// but asks for what cannot be.
	errUsage = errors.New("not understood")
	errValue = errors.New("bad value")
	// errConfig marks a configuration file that is not understood.
	errConfig = errors.New("not understood")
	// errFailed ends a command that has said already what is wrong.
	errFailed = errors.New("failed")
	// errRefused is a specification with problems that were shown.
	errRefused = errors.New("refused")
)

// Exit codes.
const (
	exitFailure = 1
	exitUsage   = 2
)

// hints say what a user can do, by cause. The first that matches counts.
var hints = []struct {
	fits  func(error) bool
	hint  string
	usage bool
}{
	{is(errUsage), "pillion --help shows the commands, and COMMAND --help what one of them takes", true},
	{is(errConfig), "correct or remove the line; docs/cli.md lists the keys", true},
	{is(scaffold.ErrDescription), "correct the line; pillion oml scaffold --help shows a description", true},
	{is(api.ErrServer), "--server noc.example:8470 is an example", true},
	{is(errDomain), "pillion oml domains shows the names", true},
	{is(errValue), "COMMAND --help shows what the option takes", true},
	{is(errRefused), "correct the fields above", true},
	{isA[x509.UnknownAuthorityError], "pillion login SERVER shows the authority's fingerprint and keeps it; or give --ca or --ca-fingerprint", false},
	{is(api.ErrFingerprint), "the server is another one, or was set up again: compare with what it printed, then pillion login SERVER", false},
	{isA[x509.HostnameError], "use a name that is in the server's certificate", false},
	{isA[tls.RecordHeaderError], "the port does not speak TLS: check host and port", false},
	{isA[*net.DNSError], "check the name of the server", false},
	{is(syscall.ECONNREFUSED), "is pillion-server running there? --server or PILLION_SERVER names another", false},
	{code(connect.CodeUnauthenticated), "give a token: PILLION_TOKEN, --token-file, or pillion login SERVER; on the server's machine sudo finds its own", false},
	{code(connect.CodePermissionDenied), "the token's role is too low: ask an admin for another (pillion token create)", false},
	{code(connect.CodeNotFound), "pillion agents, session list and streams show the names", false},
	{code(connect.CodeInvalidArgument), "COMMAND --help shows what the option takes", true},
	{code(connect.CodeUnimplemented), "the server is older than this program, or is no pillion-server: pillion version shows both", false},
	{code(connect.CodeDeadlineExceeded), "--timeout 2m waits longer", false},
	{is(fs.ErrNotExist), "check the path", false},
	{is(fs.ErrPermission), "check who may read or write the file", false},
}

func is(cause error) func(error) bool { return func(err error) bool { return errors.Is(err, cause) } }

func isA[E error](err error) bool {
	var as E
	return errors.As(err, &as)
}

func code(want connect.Code) func(error) bool {
	return func(err error) bool {
		var as *connect.Error
		return errors.As(err, &as) && as.Code() == want
	}
}

// complain writes an error in one line, with a second line that helps if there is
// one, and returns the exit code.
func complain(w io.Writer, ctx context.Context, err error) int {
	if errors.Is(err, errFailed) {
		return exitFailure
	}
	if ctx.Err() != nil {
		fmt.Fprintln(w, "pillion: interrupted")
		return exitFailure
	}
	fmt.Fprintf(w, "pillion: %s\n", clean(strings.ReplaceAll(err.Error(), "\n", "; ")))
	for _, h := range hints {
		if h.fits(err) {
			fmt.Fprintf(w, "hint: %s\n", h.hint)
			if h.usage {
				return exitUsage
			}
			return exitFailure
		}
	}
	return exitFailure
}

// callError is a server's refusal in its own words.
type callError struct {
	doing string
	cause *connect.Error
}

func (e callError) Error() string {
	return e.doing + ": " + cmp.Or(e.cause.Message(), e.cause.Code().String())
}
func (e callError) Unwrap() error { return e.cause }

// failed says what was being done when a call failed; nil stays nil.
func failed(doing string, err error) error {
	if err == nil {
		return nil
	}
	var refusal *connect.Error
	if errors.As(err, &refusal) {
		return callError{doing, refusal}
	}
	return fmt.Errorf("%s: %w", doing, err)
}
