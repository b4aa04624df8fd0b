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
	"slices"
	"strings"
	"syscall"

	"connectrpc.com/connect"

	"pillion.dev/api"
	"pillion.dev/cli/command"
	"pillion.dev/cli/terminal"
)

var (
	errUsage, errValue = command.ErrUsage, command.ErrValue
	// errConfig marks an invalid configuration file.
	errConfig = errors.New("invalid configuration")
	// errFailed ends a command that has already printed the reason.
	errFailed = errors.New("failed")
	// ErrRefused is a specification whose problems were printed.
	ErrRefused = errors.New("rejected")
)

// hints tell a user what to do, by cause. The first match applies; without a text, the
// error itself says it.
var hints = []command.Hint{
	command.Correctable(command.Is(errUsage), "see COMMAND --help for options and their values"),
	command.Correctable(command.Is(errConfig), "correct or remove the line; docs/reference/cli.md lists the keys"),
	command.Correctable(command.Is(api.ErrServer), "for example --server noc.example:8470"),
	command.Correctable(command.Is(terminal.ErrNone), "run it in a terminal; pillion top --once prints a plain table"),
	command.Correctable(command.Is(errValue), ""),
	command.Correctable(command.Is(ErrRefused), "correct the fields listed above"),
	command.Failure(isA[x509.UnknownAuthorityError], "run pillion login SERVER to confirm and save the authority's fingerprint, or use --ca or --ca-fingerprint"),
	command.Failure(command.Is(api.ErrFingerprint), "this is another server, or it was reinstalled: compare the fingerprint with the one it printed, then run pillion login SERVER"),
	command.Failure(isA[x509.HostnameError], "use a host name that is in the server's certificate, or start the server with --host NAME"),
	command.Failure(isA[tls.RecordHeaderError], "the port does not use TLS: check host and port"),
	command.Failure(isA[*net.DNSError], "check the host name of the server"),
	command.Failure(command.Is(syscall.ECONNREFUSED), "check that pillion-server is running there; --server or PILLION_SERVER selects another host"),
	command.Failure(code(connect.CodeUnauthenticated), "provide a token: PILLION_TOKEN, --token-file or pillion login SERVER; on the server itself, use sudo"),
	command.Failure(code(connect.CodePermissionDenied), "the role of the token is not sufficient: an admin can create another (pillion token create)"),
	command.Failure(code(connect.CodeNotFound), "pillion agents, pillion session list and pillion streams list the names"),
	command.Correctable(code(connect.CodeInvalidArgument), ""),
	command.Failure(code(connect.CodeUnimplemented), "the server is older than this program, or not a pillion-server: compare with pillion version"),
	command.Failure(code(connect.CodeDeadlineExceeded), "use a longer --timeout, such as 2m"),
	command.Failure(command.Is(fs.ErrNotExist), "check the path"),
	command.Failure(command.Is(fs.ErrPermission), "check the permissions of the file"),
}

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

// fail prints an error, unless the command has already done so, and returns the exit
// code.
func fail(w io.Writer, ctx context.Context, err error) int {
	if errors.Is(err, errFailed) {
		return command.ExitFailure
	}
	if ctx.Err() != nil {
		fmt.Fprintln(w, "pillion: interrupted")
		return command.ExitFailure
	}
	return command.Fail(w, "pillion", cleaned{err}, slices.Concat(wings.Hints(), hints))
}

// cleaned is an error whose text cannot control the terminal.
type cleaned struct{ error }

func (c cleaned) Error() string { return clean(strings.ReplaceAll(c.error.Error(), "\n", "; ")) }
func (c cleaned) Unwrap() error { return c.error }

// callError is an error returned by the server, with the server's message.
type callError struct {
	doing string
	cause *connect.Error
}

// Error names the action once, even if the server's message begins with it.
func (e callError) Error() string {
	message := cmp.Or(e.cause.Message(), e.cause.Code().String())
	if strings.HasPrefix(strings.ReplaceAll(message, `"`, ""), e.doing+": ") {
		return message
	}
	return e.doing + ": " + message
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
