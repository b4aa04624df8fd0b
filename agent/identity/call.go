package identity

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode"
)

// Messages of pillion.v1.EnrolService in the JSON of the Connect protocol; see
// api/proto/server.proto.
type (
	enrolRequest struct {
		Token              string `json:"token"`
		Name               string `json:"name"`
		CertificateRequest []byte `json:"certificateRequest"`
	}
	enrolResponse struct {
		Certificate []byte `json:"certificate"`
		Authority   []byte `json:"authority"`
		Bus         string `json:"bus"`
	}
	renewRequest struct {
		CertificateRequest []byte `json:"certificateRequest"`
	}
	renewResponse struct {
		Certificate []byte `json:"certificate"`
		Bus         string `json:"bus"`
	}
	standingRequest struct {
		Revocations []byte `json:"revocations,omitempty"`
	}
	standingResponse struct {
		Welcome     bool   `json:"welcome"`
		Reason      string `json:"reason"`
		Revocations []byte `json:"revocations"`
	}
	// failure is the body of a response other than 200.
	failure struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	}
)

const (
	callTimeout   = 30 * time.Second
	responseLimit = 8 << 20
	servicePath   = "/pillion.v1.EnrolService/"
)

// callAny makes a request to the first reachable server of a list separated by commas, and returns
// that server's address.
func callAny(ctx context.Context, config *tls.Config, servers, method string, message, answer any) (server string, err error) {
	var unreached []error
	for server = range strings.SplitSeq(servers, ",") {
		if err = call(ctx, config, server, method, message, answer); !errors.Is(err, ErrUnreachable) {
			return server, err
		}
		unreached = append(unreached, err)
	}
	if len(unreached) == 1 {
		return server, err
	}
	return server, fmt.Errorf("none of %d servers responds: %w", len(unreached), errors.Join(unreached...))
}

// call makes one request to a server on a new connection.
func call(ctx context.Context, config *tls.Config, server, method string, message, answer any) error {
	body, err := json.Marshal(message)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+server+servicePath+method, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Connect-Protocol-Version", "1")
	client := http.Client{
		Transport:     &http.Transport{TLSClientConfig: config, DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	response, err := client.Do(request)
	if err != nil {
		return unreachable(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, responseLimit))
	if err != nil {
		return unreachable(err)
	}
	err = parseResponse(response.StatusCode, text, answer)
	if errors.Is(err, ErrToken) && method != "Enrol" {
		return fmt.Errorf("%w: it does not see our certificate", ErrRefused) // a proxy terminates TLS
	}
	return err
}

// unreachable converts the error of a call without a response to one of this package.
func unreachable(err error) error {
	var notTLS tls.RecordHeaderError
	var lookup *net.DNSError
	switch {
	case errors.As(err, &notTLS), strings.Contains(err.Error(), "server gave HTTP response to HTTPS client"):
		return ErrPlain
	case errors.Is(err, ErrImpostor):
		return ErrImpostor
	case errors.As(err, &lookup):
		return fmt.Errorf("%w: %w", ErrUnreachable, lookup)
	}
	var request *url.Error // its text has the URL, which the caller's message has already
	if errors.As(err, &request) {
		err = request.Err
	}
	return fmt.Errorf("%w: %w", ErrUnreachable, err)
}

// parseResponse parses the server's response.
func parseResponse(status int, text []byte, answer any) error {
	if status == http.StatusOK {
		if err := json.Unmarshal(text, answer); err != nil {
			return fmt.Errorf("read the server's response: %w", err)
		}
		return nil
	}
	var f failure
	if err := json.Unmarshal(text, &f); err != nil || f.Code == "" {
		return fmt.Errorf("HTTP status %d; is it a Pillion server?", status)
	}
	switch f.Code {
	case "unauthenticated":
		return fmt.Errorf("%w: %s", ErrToken, oneLine(f.Message))
	case "already_exists":
		return ErrTaken
	case "permission_denied":
		return fmt.Errorf("%w: %s", ErrRefused, oneLine(f.Message))
	}
	return fmt.Errorf("server error: %s (%s)", oneLine(f.Message), oneLine(f.Code))
}

// oneLine makes a text from the server safe to print on a terminal.
func oneLine(text string) string {
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text)
	if runes := []rune(text); len(runes) > 500 {
		text = string(runes[:500]) + "..."
	}
	return text
}
