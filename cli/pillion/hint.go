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
	// errUsage marks a command line that cannot be parsed, errValue an option or
	// argument with an invalid value.
	errUsage = errors.New("invalid command line")
	errValue = errors.New("invalid value")
	// errConfig marks an invalid configuration file.
	errConfig = errors.New("invalid configuration")
	// errFailed ends a command that has already printed the reason.
	errFailed = errors.New("failed")
	// errRefused is a specification whose problems were printed.
	errRefused = errors.New("refused")
)

// Exit codes.
const (
	exitFailure = 1
	exitUsage   = 2
)

// hints tell a user what to do, by cause. The first match applies.
var hints = []struct {
	fits  func(error) bool
	hint  string
	usage bool
}{
	{is(errUsage), "see pillion --help, or COMMAND --help for the options of a command", true},
	{is(errConfig), "correct or remove the line; docs/cli.md lists the keys", true},
	{is(scaffold.ErrDescription), "correct the line; pillion oml scaffold --help shows an example", true},
	{is(api.ErrServer), "for example --server noc.example:8470", true},
	{is(errDomain), "pillion oml domains lists the names", true},
	{is(errValue), "see COMMAND --help for the values of an option", true},
	{is(errRefused), "correct the fields listed above", true},
	{isA[x509.UnknownAuthorityError], "run pillion login SERVER to confirm and save the authority's fingerprint, or use --ca or --ca-fingerprint", false},
	{is(api.ErrFingerprint), "this is another server, or it was reinstalled: compare the fingerprint with the one it printed, then run pillion login SERVER", false},
	{isA[x509.HostnameError], "use a host name that is in the server's certificate", false},
	{isA[tls.RecordHeaderError], "the port does not use TLS: check host and port", false},
	{isA[*net.DNSError], "check the host name of the server", false},
	{is(syscall.ECONNREFUSED), "check that pillion-server is running there; --server or PILLION_SERVER selects another host", false},
	{code(connect.CodeUnauthenticated), "provide a token: PILLION_TOKEN, --token-file or pillion login SERVER; on the server itself, use sudo", false},
	{code(connect.CodePermissionDenied), "the role of the token is not sufficient: an admin can create another (pillion token create)", false},
	{code(connect.CodeNotFound), "pillion agents, pillion session list and pillion streams list the names", false},
	{code(connect.CodeInvalidArgument), "see COMMAND --help for the values of an option", true},
	{code(connect.CodeUnimplemented), "the server is older than this program, or not a pillion-server: compare with pillion version", false},
	{code(connect.CodeDeadlineExceeded), "use a longer --timeout, such as 2m", false},
	{is(fs.ErrNotExist), "check the path", false},
	{is(fs.ErrPermission), "check the permissions of the file", false},
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

// fail prints an error on one line, followed by a hint if there is one, and returns
// the exit code.
func fail(w io.Writer, ctx context.Context, err error) int {
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

// callError is an error returned by the server, with the server's message.
type callError struct {
	doing string
	cause *connect.Error
}

func (e callError) Error() string {
	return e.doing + ": " + cmp.Or(e.cause.Message(), e.cause.Code().String())
}
func (e callError) Unwrap() error { return e.cause }

// failed adds the action that failed to an error; nil stays nil.
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
