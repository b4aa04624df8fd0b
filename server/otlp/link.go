package otlp

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/klauspost/compress/gzip"
	service "go.opentelemetry.io/proto/slim/otlp/collector/metrics/v1"
	"google.golang.org/protobuf/proto"

	"pillion.dev/server/outbound"
)

// answerMost bounds what is read of an answer, bytes.
const answerMost = 64 << 10

// temporaryError is one after which a request may be repeated, after the time that the collector said; 0: any.
type temporaryError struct {
	error
	after time.Duration
}

func (t *temporaryError) Unwrap() error { return t.error }

// link is the connection to the collector. After an error a new one is made, with files that may have been
// replaced.
type link struct {
	config    Config
	addresses outbound.Addresses
	client    *http.Client
}

func (l *link) close() {
	if l.client != nil {
		l.client.CloseIdleConnections()
		l.client = nil
	}
}

func (l *link) open() error {
	if l.client != nil {
		return nil
	}
	settings, err := outbound.TLS(l.config.CA)
	if err != nil {
		return err
	}
	if l.config.Certificate != "" {
		pair, err := tls.LoadX509KeyPair(l.config.Certificate, l.config.Key)
		if err != nil {
			return fmt.Errorf("read client certificate: %w", err)
		}
		settings.Certificates = []tls.Certificate{pair}
	}
	l.client = l.addresses.Client(&http.Transport{TLSClientConfig: settings, ForceAttemptHTTP2: true, MaxIdleConns: 1, IdleConnTimeout: 90 * time.Second})
	return nil
}

// send sends a message once, and returns how many of its points the collector rejected.
func (l *link) send(ctx context.Context, message *service.ExportMetricsServiceRequest) (rejected int64, err error) {
	headers, err := readHeaders(l.config.HeadersFile)
	if err == nil {
		err = l.open()
	}
	if err != nil {
		return 0, &temporaryError{error: err} // until the file is there
	}
	ctx, cancel := context.WithTimeout(ctx, l.config.Timeout)
	defer cancel()
	text, err := l.post(ctx, message, headers)
	if err != nil {
		l.close()
		return 0, fmt.Errorf("export metrics: %w", err)
	}
	var answer service.ExportMetricsServiceResponse
	if err := proto.Unmarshal(text, &answer); err != nil {
		return 0, fmt.Errorf("export metrics: read answer: %w", err)
	}
	return answer.GetPartialSuccess().GetRejectedDataPoints(), nil
}

// post sends a message and returns the answer.
func (l *link) post(ctx context.Context, message *service.ExportMetricsServiceRequest, headers http.Header) ([]byte, error) {
	plain, err := proto.Marshal(message)
	if err != nil {
		return nil, err
	}
	var body bytes.Buffer
	packer, err := gzip.NewWriterLevel(&body, gzip.BestSpeed)
	if err != nil {
		return nil, err
	}
	if _, err := packer.Write(plain); err != nil {
		return nil, err
	}
	if err := packer.Close(); err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, l.config.to.String(), &body)
	if err != nil {
		return nil, outbound.WithoutURL(err)
	}
	for name, values := range headers {
		request.Header[name] = values
	}
	if request.Header.Get("User-Agent") == "" {
		request.Header.Set("User-Agent", "pillion-server")
	}
	request.Header.Set("Content-Type", "application/x-protobuf")
	request.Header.Set("Content-Encoding", "gzip")
	response, err := l.client.Do(request)
	if err != nil {
		return nil, &temporaryError{error: outbound.WithoutURL(err)}
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(response.Body, answerMost))
	switch code := response.StatusCode; {
	case code >= 200 && code < 300 && err == nil:
		return answer, nil
	case code >= 200 && code < 300:
		return nil, &temporaryError{error: err}
	case slices.Contains(temporaryCodes, code):
		return nil, &temporaryError{fmt.Errorf("status %s", response.Status), retryAfter(response.Header.Get("Retry-After"), time.Now())}
	default:
		return nil, fmt.Errorf("status %s", response.Status)
	}
}

// temporaryCodes are those that OTLP/HTTP names.
var temporaryCodes = []int{http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout}

// retryAfter is the time in a header, in seconds or until a date; 0 if there is none.
func retryAfter(text string, now time.Time) time.Duration {
	if seconds, err := strconv.ParseUint(text, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}
