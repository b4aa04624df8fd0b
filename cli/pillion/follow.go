package pillion

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"time"

	"connectrpc.com/connect"

	"pillion.dev/api"
	"pillion.dev/api/pillionv1"
)

// followed is the messages of a call as they arrive.
type followed[M any] = connect.ServerStreamForClient[M]

// follow reads messages until ctx ends, and calls again when the connection is lost. It
// returns nil at the end of ctx, what each returned, or an error that will not pass.
func follow[M any](ctx context.Context, open func(context.Context) (*followed[M], error), each func(*M) error, lost func(error)) error {
	const shortest, longest = time.Second / 2, 5 * time.Second
	for wait := shortest; ; wait = min(2*wait, longest) {
		var refusal error
		err := readAll(ctx, open, func(message *M) error {
			wait = shortest
			refusal = each(message)
			return refusal
		})
		switch {
		case ctx.Err() != nil:
			return nil
		case refusal != nil:
			return refusal
		case !transient(err):
			return err
		}
		lost(err)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
	}
}

// readAll reads one stream, whose end is an error too.
func readAll[M any](ctx context.Context, open func(context.Context) (*followed[M], error), each func(*M) error) error {
	stream, err := open(ctx)
	if err != nil {
		return err
	}
	defer stream.Close()
	for stream.Receive() {
		if err := each(stream.Msg()); err != nil {
			return err
		}
	}
	if err := stream.Err(); err != nil {
		return err
	}
	return connect.NewError(connect.CodeUnavailable, errors.New("the server ended the stream"))
}

// transient reports whether a call may succeed later: the server stops or is overloaded, or the
// connection failed. The end of a connection amid a message has the code of an invalid one.
func transient(err error) bool {
	if !isA[*connect.Error](err) {
		return false // not of a call
	}
	switch connect.CodeOf(err) {
	case connect.CodeUnavailable, connect.CodeDeadlineExceeded, connect.CodeAborted, connect.CodeCanceled:
		return !isA[*tls.CertificateVerificationError](err) && !isA[x509.UnknownAuthorityError](err) && !isA[tls.RecordHeaderError](err) && !errors.Is(err, api.ErrFingerprint)
	case connect.CodeUnknown, connect.CodeInternal, connect.CodeInvalidArgument, connect.CodeDataLoss:
		return !connect.IsWireError(err)
	}
	return false
}

// followTail follows new rows.
func followTail(ctx context.Context, client *api.Client, request *pillionv1.TailRequest, each func(*pillionv1.TailResponse) error, lost func(error)) error {
	return follow(ctx, func(ctx context.Context) (*followed[pillionv1.TailResponse], error) {
		return client.Data.Tail(ctx, request)
	}, each, lost)
}
